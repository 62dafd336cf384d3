//! What a client is given over its socket.

use std::time::Duration;

use futures_util::StreamExt;
use handback_testkit::TestServer;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

#[tokio::test]
async fn a_call_comes_as_one_text_frame_with_the_keys_in_their_order() {
    let server = TestServer::start().await;
    server.register("tab", &["t"]).await;
    let mut socket = server.socket("tab").await;
    let call = json!({ "toolID": "client_tab_t", "requestID": "r", "sessionID": "s", "input": { "a": 1 } });
    server.begin_call(call).await;
    let Some(Ok(Message::Text(text))) = socket.0.next().await else { panic!("no text frame") };
    let deadline = server.call("r").await["deadline"].as_str().unwrap().to_owned();
    let expected = format!(
        "{{\"type\":\"request\",\"request\":{{\"type\":\"client-tool-request\",\"requestID\":\"r\",\"sessionID\":\"s\",\
         \"messageID\":\"\",\"callID\":\"\",\"tool\":\"client_tab_t\",\"input\":{{\"a\":1}},\
         \"deadline\":\"{deadline}\",\"effect\":\"write\",\"attempt\":1}}}}"
    );
    assert_eq!(text.as_str(), expected);
}

#[tokio::test]
async fn calls_wait_for_a_socket_as_they_do_for_a_stream() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let requests: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    for request in &requests {
        server.begin_call(json!({ "toolID": ids[0], "requestID": request })).await;
    }
    let mut socket = server.socket("tab").await;
    for request in &requests {
        assert_eq!(socket.request().await["requestID"], request.as_str());
    }
}

#[tokio::test]
async fn a_call_moves_between_socket_and_stream_when_one_goes() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab").await;
    let mut socket = server.socket("tab").await;
    server.begin_call(json!({ "toolID": ids[0], "requestID": "r" })).await;
    assert_eq!(socket.request().await["attempt"], 1);
    drop(socket);
    assert_eq!(stream.expect_call("r").await.data["attempt"], 2);
    let mut socket = server.socket("tab").await;
    drop(stream);
    assert_eq!(socket.request().await["attempt"], 3);
}

#[tokio::test]
async fn timeout_cancel_and_a_caller_that_goes_are_told() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut socket = server.socket("tab").await;

    let late = server.execute(json!({ "toolID": ids[0], "requestID": "late", "timeout": 50 }));
    socket.request().await;
    let timeout = socket.next().await;
    assert_eq!((&timeout["type"], &timeout["requestID"]), (&json!("cancel"), &json!("late")));
    late.await.unwrap().must_fail(504, "TIMEOUT");

    server.begin_call(json!({ "toolID": ids[0], "requestID": "cancelled" })).await;
    socket.request().await;
    server.cancel("cancelled", "why").await;
    assert_eq!(socket.next().await, json!({ "type": "cancel", "requestID": "cancelled", "reason": "why" }));

    let abandoned = server.execute(json!({ "toolID": ids[0], "requestID": "abandoned" }));
    socket.request().await;
    abandoned.abort();
    let told = socket.next().await;
    assert_eq!((&told["type"], &told["requestID"]), (&json!("cancel"), &json!("abandoned")));
    assert!(!told["reason"].as_str().unwrap().is_empty());
}

#[tokio::test]
async fn without_grace_a_socket_that_goes_takes_tools_and_calls_with_it() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut socket = server.socket("tab").await;
    let call = server.execute(json!({ "toolID": ids[0] }));
    socket.request().await;
    drop(socket);
    call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    server.until("nothing is left", |counts| counts.clients == 0 && counts.tools == 0).await;
}

#[tokio::test]
async fn with_grace_a_socket_may_come_back_and_is_offered_its_calls_again() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut socket = server.socket("tab?grace=60000").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    socket.request().await;
    drop(socket);
    server.until("the socket is gone", |counts| counts.connections == 0).await;
    assert_eq!(server.counts().tools, 1);
    let mut socket = server.socket("tab?grace=60000").await;
    assert_eq!(socket.request().await["attempt"], 2);
    let result = json!({ "type": "result", "requestID": "r", "result": { "status": "success", "output": "back" } });
    socket.ask(result).await;
    assert_eq!(call.await.unwrap().body["output"], "back");
}

#[tokio::test]
async fn the_server_pings_to_keep_the_connection_alive() {
    let server = TestServer::with(|config| config.client_tools.keepalive_interval = Duration::from_millis(20)).await;
    let mut socket = server.socket("tab").await;
    for _ in 0..3 {
        let frame = socket.0.next().await.unwrap().unwrap();
        assert!(matches!(frame, Message::Ping(_)), "{frame:?}");
    }
}

#[tokio::test]
async fn messages_and_calls_of_some_megabytes_pass_whole() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut socket = server.socket("tab").await;
    let text = "0123456789äöü".repeat(200_000);
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r", "input": { "text": text } }));
    assert!(socket.request().await["input"] == json!({ "text": text }), "the input is another");
    let result = json!({ "type": "result", "requestID": "r", "result": { "status": "success", "output": text } });
    assert_eq!(socket.ask(result).await["accepted"], true);
    assert!(call.await.unwrap().body["output"] == text, "the output is another");
}
