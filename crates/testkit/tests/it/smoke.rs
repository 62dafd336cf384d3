use handback_testkit::TestServer;
use serde_json::json;

#[tokio::test]
async fn one_call() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["time"]).await;
    let mut stream = server.stream("tab").await;
    println!("{:?}", stream.headers);
    let call = server.execute(json!({"toolID": ids[0], "input": {"a": 1}}));
    let frame = stream.expect("tool-request").await;
    println!("{frame:?}");
    let answer = server.answer(frame.request_id(), "noon").await;
    println!("{answer:?}");
    println!("{:?}", call.await.unwrap());
    let mut socket = server.socket("tab").await;
    println!("{:?}", socket.ask(json!({"type":"register","tools":[{"id":"x"}],"ref":{"a":[1]}})).await);
    println!("{:?}", socket.ask(json!({"type":"nope","ref":5})).await);
    println!("{}", server.get("/metrics").await.body.as_str().unwrap());
    println!("{:?}", server.get(&format!("/client-tools/calls/{}", frame.request_id())).await);
    println!("{:?}", server.get("/session/x").await);
    drop(stream);
    server.stop().await;
    println!("{:?}", socket.next().await);
}
