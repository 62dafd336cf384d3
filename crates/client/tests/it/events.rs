//! The stream of events: read, lost, and opened again.

use futures_util::StreamExt;
use handback_client::{Api, Error, Events, Notice};

use crate::stub::{Stub, next};

const IDLE: &str = r#"{"type":"session.idle","properties":{"sessionID":"ses_1"}}"#;

/// What the stream tells next: the event as JSON, or why the connection was lost.
async fn told(events: &mut Events) -> String {
    let next = tokio::time::timeout(crate::stub::PATIENCE, events.next()).await.expect("nothing came in time");
    match next.expect("the stream goes on").expect("the stream is accepted") {
        Notice::Event(event) => serde_json::to_string(&event).unwrap(),
        Notice::Disconnected { reason, .. } => format!("lost: {reason}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_lost_stream_is_told_and_opened_again() {
    let mut stub = Stub::start().await;
    let mut events = Api::new(&stub.url, None).unwrap().events();
    stub.refuse("event", &[503]);
    assert_eq!(told(&mut events).await, "lost: not now");
    let (idle, listener) = tokio::join!(told(&mut events), async {
        let listener = next(&mut stub.listeners).await;
        listener.data(r#"{"type":"something.new","properties":[1]}"#);
        listener.data(IDLE);
        listener
    });
    assert_eq!(idle, IDLE);
    listener.cut();
    assert!(told(&mut events).await.starts_with(&format!("lost: the connection to {} was lost", stub.url)));
    let (idle, _listener) = tokio::join!(told(&mut events), async {
        let listener = next(&mut stub.listeners).await;
        listener.data(IDLE);
        listener
    });
    assert_eq!(idle, IDLE);
}

#[tokio::test]
async fn a_stream_that_is_refused_ends() {
    let stub = Stub::start().await;
    stub.refuse("event", &[401]);
    let mut events = Api::new(&stub.url, None).unwrap().events();
    let refused = events.next().await.unwrap().unwrap_err();
    assert!(matches!(&refused, Error::Refused(refusal) if refusal.status == 401), "{refused}");
    assert!(events.next().await.is_none());
}
