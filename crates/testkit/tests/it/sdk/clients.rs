//! Clients whose tools a model calls.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt;
use handback_client::{Client, ClientOptions, Options, StartSession, Tool, TurnEvent};
use handback_core::tools::Permission;
use handback_testkit::TestServer;
use handback_testkit::raw::RawSocket;
use handback_testkit::server::PATIENCE;
use handback_testkit::session::permit;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use super::proxy::Proxy;

/// A client with a tool that says what it was given.
async fn client(server: &TestServer) -> Client {
    let client = Client::new(&server.url, ClientOptions::default()).unwrap();
    let echo = Tool::new("echo", "Says it again", |call| async move { Ok(call.request.input.get().to_owned()) });
    client.tools().register(echo).await.unwrap();
    client
}

/// The names of the tools that the server knows of a client.
async fn tools(client: &Client) -> Vec<String> {
    let tools = client.api().tools(client.tools().client_id()).await.unwrap();
    tools.into_iter().map(|tool| tool.id).collect()
}

#[tokio::test]
async fn a_model_calls_the_tool_of_a_client() {
    let server = TestServer::start().await;
    let client = client(&server).await;
    let session = client.start_session(StartSession::default()).await.unwrap();
    let answer = session.prompt("call echo {\"a\":1}").await.unwrap();
    assert_eq!(answer.text(), "The tool `echo` answered: {\"a\":1}");
    session.close().await;
}

/// The server closes a connection that is idle for 10 s. A request that is sent at that moment is lost.
#[tokio::test]
async fn an_idle_connection_is_not_used_again() {
    const IDLE: Duration = Duration::from_millis(5_100);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(&format!("http://{}", listener.local_addr().unwrap()), ClientOptions::default()).unwrap();
    let ask = async || assert!(client.api().sessions(None).await.unwrap().is_empty());
    let accept = async || RawSocket::on(timeout(PATIENCE, listener.accept()).await.expect("a connection").unwrap().0);
    let answer = async |mut connection: RawSocket| {
        connection.until("\r\n\r\n").await;
        let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n[]";
        connection.send(answer).await.unwrap();
        connection
    };

    let (first, ()) = tokio::join!(async { answer(accept().await).await }, ask());
    let (_idle, ()) = tokio::join!(answer(first), ask());
    sleep(IDLE).await;
    tokio::join!(async { answer(accept().await).await }, ask());
}

#[tokio::test]
async fn the_last_session_that_is_closed_takes_the_tools_along() {
    let server = TestServer::start().await;
    let client = client(&server).await;
    let offered = [format!("client_{}_echo", client.tools().client_id())];
    let (first, second) = tokio::join!(
        client.start_session(StartSession::default()),
        client.start_session(StartSession::with(|session| session.title = Some("Mine".to_owned())))
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(second.session().title, "Mine");
    first.close().await;
    assert_eq!(tools(&client).await, offered);
    second.close().await;
    assert_eq!(tools(&client).await, [""; 0]);
    // And the next one brings them back.
    let third = client.start_session(StartSession::default()).await.unwrap();
    assert_eq!(tools(&client).await, offered);
    third.close().await;
    assert_eq!(tools(&client).await, [""; 0]);
}

#[tokio::test]
async fn a_session_is_closed_although_another_waits_for_the_server() {
    let server = TestServer::start().await;
    let proxy = Proxy::to(server.address).await;
    let tools = Options::with(|options| options.reconnect = (Duration::from_millis(10), Duration::from_millis(50)));
    let client = Client::new(&proxy.url, ClientOptions::with(|options| options.tools = tools)).unwrap();
    let first = client.start_session(StartSession::default()).await.unwrap();
    proxy.close();
    client.tools().state().wait_for(|state| !state.is_open()).await.unwrap();
    let mut starting = pin!(client.start_session(StartSession::default()));
    assert!(starting.as_mut().now_or_never().is_none(), "there is no server");
    timeout(PATIENCE, first.close()).await.expect("it waits for nobody");
    proxy.open();
    timeout(PATIENCE, starting).await.expect("the server is back").unwrap().close().await;
}

#[tokio::test]
async fn tools_that_were_connected_before_stay() {
    let server = TestServer::start().await;
    let client = client(&server).await;
    client.tools().connect(None).await.unwrap();
    client.start_session(StartSession::default()).await.unwrap().close().await;
    assert_eq!(tools(&client).await.len(), 1);
    client.tools().disconnect().await;
}

#[tokio::test]
async fn a_session_without_tools_offers_none() {
    let server = TestServer::start().await;
    let client = client(&server).await;
    client.tools().connect(None).await.unwrap();
    let start = StartSession::with(|session| session.without_tools = true);
    let session = client.start_session(start).await.unwrap();
    let offered = client.api().session_tools(&session.session().id).await.unwrap();
    // Those of the server itself are in every session.
    assert!(offered.iter().all(|tool| tool.client_id.is_none()), "{offered:?}");
    session.close().await;
    assert_eq!(tools(&client).await.len(), 1);
    client.tools().disconnect().await;
}

#[tokio::test]
async fn a_session_that_is_refused_leaves_nothing_connected() {
    let server = TestServer::start().await;
    let client = client(&server).await;
    let start = StartSession::with(|session| session.agent = Some("nobody".to_owned()));
    let refused = client.start_session(start).await.unwrap_err();
    assert_eq!(refused.status(), Some(400));
    assert_eq!(tools(&client).await, [""; 0]);
}

#[tokio::test]
async fn a_call_that_asks_is_allowed_through_the_stream() {
    let server = TestServer::with(|config| permit(config, Permission::Ask)).await;
    let client = client(&server).await;
    let session = client.start_session(StartSession::default()).await.unwrap();
    let mut turn = session.stream("call echo {\"a\":1}");
    let (mut calls, mut answer) = (Vec::new(), String::new());
    while let Some(event) = turn.next().await {
        match event.unwrap() {
            TurnEvent::Ask(ask) => {
                calls.push(format!("ask {}", ask.permission.input));
                ask.allow_with(serde_json::from_str("{\"a\":2}").unwrap()).await.unwrap();
            }
            TurnEvent::Tool(part) => calls.push(part.state.unwrap().status),
            TurnEvent::AskClosed { .. } => calls.push("closed".to_owned()),
            TurnEvent::Done { message, .. } => answer = message.text(),
            _ => {}
        }
    }
    assert_eq!(calls, ["pending", "running", "ask {\"a\":1}", "closed", "completed"]);
    assert_eq!(answer, "The tool `echo` answered: {\"a\":2}");
    session.close().await;
}
