//! What clients send on their WebSockets.

use std::collections::BTreeMap;
use std::time::Duration;

use handback_core::calls::Opening;
use handback_core::id::{ClientId, ConnectionName};
use handback_server::config::Config;
use handback_server::fuzzing::answer_messages;
use serde_json::value::RawValue;

use super::requests::Page;
use super::{app, in_time, sections};

/// A tool, and two calls of it.
const BEFORE: [&[u8]; 3] = [
    b"POST /client-tools/register\n\n{\"clientID\":\"tab\",\"tools\":[{\"id\":\"t\"}]}",
    b"POST /client-tools/execute\n\n{\"toolID\":\"client_tab_t\",\"requestID\":\"r1\",\"wait\":false}",
    b"POST /client-tools/execute\n\n{\"toolID\":\"client_tab_t\",\"requestID\":\"r2\",\"wait\":false}",
];

/// Messages of a client with two open calls: each is answered with one JSON object, and none breaks the server.
pub fn socket_messages(bytes: &[u8]) {
    let messages: Vec<Option<String>> =
        sections(bytes).into_iter().map(|message| String::from_utf8(message.to_vec()).ok()).collect();
    let count = messages.len();
    let answers = in_time(async {
        let page = Page::new(app(Config::default()).await.unwrap(), Duration::from_secs(1));
        for request in BEFORE {
            assert!(page.ask(request).await.unwrap().is_success());
        }
        let opening = Opening {
            client: ClientId::parse("tab").unwrap(),
            name: Some(ConnectionName::parse("c").unwrap()),
            grace: Duration::ZERO,
            session: None,
            last_seen: None,
        };
        answer_messages(&page.app, page.app.hub().connect(opening).unwrap(), messages).await
    });
    assert_eq!(answers.len(), count);
    for answer in answers {
        // The `ref` of the message is repeated as it is, and may have numbers that are too large.
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&answer).unwrap();
        let is_fault = members.get("code").is_some_and(|code| code.get().contains("INTERNAL"));
        assert!(members["type"].get().starts_with('"') && !is_fault, "{answer}");
    }
}
