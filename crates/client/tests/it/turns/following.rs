//! A session that is followed while others talk in it.

use futures_util::StreamExt;
use handback_client::{Conversation, SessionEvent};
use serde_json::{Value, json};

use super::brief;
use super::server::Server;
use crate::stub::PATIENCE;

/// What comes next, in one line.
async fn told(conversation: &mut Conversation) -> String {
    let next = tokio::time::timeout(PATIENCE, conversation.next()).await.expect("nothing came in time");
    match next {
        None => "end".to_owned(),
        Some(Err(error)) => format!("error: {error}"),
        Some(Ok(SessionEvent::Said(part))) => format!("said {}", part.text.unwrap()),
        Some(Ok(SessionEvent::Answer(event))) => brief(event),
        Some(Ok(SessionEvent::Completed(message))) => format!("complete {}", message.id),
        Some(Ok(other)) => format!("{other:?}"),
    }
}

async fn several(conversation: &mut Conversation, count: usize) -> Vec<String> {
    let mut all = Vec::new();
    while all.len() < count {
        all.push(told(conversation).await);
    }
    all
}

fn info(id: &str, role: &str, time: Value) -> Value {
    json!({"id": id, "sessionID": "ses_1", "role": role, "agent": "default", "time": time})
}

fn text(message: &str, id: &str, text: &str) -> Value {
    json!({"id": id, "sessionID": "ses_1", "messageID": message, "type": "text", "text": text})
}

#[tokio::test]
async fn each_thing_that_is_said_comes_once_over_a_lost_connection() {
    let (begun, ended) = (json!({"created": 1}), json!({"created": 1, "completed": 2}));
    let mut server = Server::start().await;
    server.world().messages = vec![
        json!({"info": info("msg_u", "user", begun.clone()), "parts": [text("msg_u", "prt_u", "hi")]}),
        json!({"info": info("msg_a", "assistant", ended.clone()), "parts": [text("msg_a", "prt_a", "Hello")]}),
    ];
    let mut conversation = server.api.follow("ses_1");
    let (listener, stored) = tokio::join!(server.listener(), several(&mut conversation, 4));
    assert_eq!(stored, ["said hi", "prt_a Hello", "complete msg_a", "CaughtUp"]);

    let message = |info: &Value| listener.tell("message.updated", &json!({"sessionID": "ses_1", "info": info}));
    let part = |part: &Value| listener.tell("message.part.updated", &json!({"sessionID": "ses_1", "part": part}));
    message(&info("msg_v", "user", begun.clone()));
    part(&text("msg_v", "prt_v", "and now?"));
    message(&info("msg_b", "assistant", begun));
    part(&text("msg_b", "prt_b", "Now it"));
    let delta =
        json!({"sessionID": "ses_1", "messageID": "msg_b", "partID": "prt_b", "field": "text", "delta": " goes"});
    listener.tell("message.part.delta", &delta);
    assert_eq!(several(&mut conversation, 3).await, ["said and now?", "prt_b Now it", "prt_b  goes"]);

    // The rest is said while nobody listens.
    listener.cut();
    assert_eq!(told(&mut conversation).await, "lost");
    server.world().messages.extend([
        json!({"info": info("msg_v", "user", ended.clone()), "parts": [text("msg_v", "prt_v", "and now?")]}),
        json!({"info": info("msg_b", "assistant", ended), "parts": [text("msg_b", "prt_b", "Now it goes on")]}),
    ]);
    let (listener, missed) = tokio::join!(server.listener(), several(&mut conversation, 4));
    assert_eq!(missed, ["found", "prt_b  on", "complete msg_b", "CaughtUp"]);

    let session = json!({"id": "ses_1", "slug": "ses_1", "projectID": "global", "directory": "", "title": "",
                         "version": "1", "time": {"created": 1, "updated": 1}});
    listener.tell("session.deleted", &json!({"sessionID": "ses_1", "info": session}));
    assert_eq!(several(&mut conversation, 2).await, ["error: the session was deleted", "end"]);
}
