//! Listings in pages: `limit`, `cursor`, and the header that says where the next page begins; and histories that nobody
//! holds as a whole.

use handback_server::config::Config;
use handback_testkit::raw::RawSocket;
use handback_testkit::{Scratch, TestServer};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// A page of a listing, and where the next one begins.
async fn page(server: &TestServer, path: &str) -> (Vec<Value>, Option<String>) {
    let response = server.request(Method::GET, path).send().await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let next = response.headers().get("x-next-cursor").map(|next| next.to_str().unwrap().to_owned());
    (response.json().await.unwrap(), next)
}

/// All pages of a listing. `path` has a query.
async fn pages(server: &TestServer, path: &str) -> Vec<Vec<Value>> {
    let (first, mut next) = page(server, path).await;
    let mut pages = vec![first];
    while let Some(cursor) = next {
        let (items, after) = page(server, &format!("{path}&cursor={cursor}")).await;
        pages.push(items);
        next = after;
    }
    pages
}

/// How many items each page must have.
fn sizes(total: usize, limit: usize) -> Vec<usize> {
    let mut sizes = vec![limit; total / limit];
    if !total.is_multiple_of(limit) {
        sizes.push(total % limit);
    }
    sizes
}

/// A server that keeps things in memory, and one that keeps them on disk.
async fn servers() -> [(TestServer, Scratch); 2] {
    let (memory, disk) = (Scratch::new(), Scratch::new());
    let on_disk = |config: &mut Config| config.data = Some(disk.path().to_owned());
    [(TestServer::start().await, memory), (TestServer::with(on_disk).await, disk)]
}

fn noted(text: &str) -> Value {
    json!({ "noReply": true, "parts": [{ "type": "text", "text": text }] })
}

#[tokio::test]
async fn sessions_are_listed_in_pages() {
    for (server, _scratch) in servers().await {
        for number in 0..6 {
            server.session(json!({ "title": format!("{number}") })).await;
        }
        let (all, next) = page(&server, "/session").await;
        assert_eq!((all.len(), next), (6, None));
        for limit in 1..=7 {
            let pages = pages(&server, &format!("/session?limit={limit}")).await;
            assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes(6, limit));
            assert_eq!(pages.concat(), all);
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn messages_are_listed_from_the_newest_back() {
    for (server, _scratch) in servers().await {
        let session = server.session(json!({})).await;
        let path = format!("/session/{session}/message");
        for number in 0..6 {
            assert_eq!(server.post(&path, noted(&format!("{number}"))).await.status, 200);
        }
        let (all, next) = page(&server, &path).await;
        assert_eq!((all.len(), next), (6, None));
        for limit in 1..=7 {
            let mut pages = pages(&server, &format!("{path}?limit={limit}")).await;
            assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes(6, limit));
            // Each is in order, and the newest come first.
            pages.reverse();
            assert_eq!(pages.concat(), all);
        }
        // With a cursor alone a page is as large as it may be. What is said meanwhile is on no older page.
        let (_, next) = page(&server, &format!("{path}?limit=2")).await;
        assert_eq!(server.post(&path, noted("late")).await.status, 200);
        let older = page(&server, &format!("{path}?cursor={}", next.unwrap())).await;
        assert_eq!(older, (all[..4].to_vec(), None));
        server.stop().await;
    }
}

#[tokio::test]
async fn calls_are_paged_through_while_they_end() {
    for (server, _scratch) in servers().await {
        let tool = server.register("desk", &["go"]).await.remove(0);
        let _stream = server.stream("desk").await;
        let mut calls = Vec::new();
        for _ in 0..10 {
            calls.push(server.begin_call(json!({ "toolID": tool })).await);
        }
        // The first four are over, in this order; the newest is the last.
        for call in &calls[..4] {
            server.answer(call, "done").await;
        }
        let ids = |page: &[Value]| page.iter().map(|call| call["requestID"].to_string()).collect::<Vec<_>>();
        let expected: Vec<String> =
            calls[4..].iter().rev().chain(calls[..4].iter().rev()).map(|id| json!(id).to_string()).collect();
        for limit in 1..=11 {
            let pages = pages(&server, &format!("/client-tools/calls?limit={limit}")).await;
            assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes(10, limit));
            assert_eq!(ids(&pages.concat()), expected);
        }
        // One that was seen under way and one that was not end before the next page; others are made and end.
        let (first, next) = page(&server, "/client-tools/calls?limit=3").await;
        assert_eq!(ids(&first), expected[..3]);
        for call in [&calls[9], &calls[5], &server.begin_call(json!({ "toolID": tool })).await] {
            server.answer(call, "done").await;
        }
        server.begin_call(json!({ "toolID": tool })).await;
        let (mut seen, mut next) = (ids(&first), next);
        while let Some(cursor) = next {
            let (items, after) = page(&server, &format!("/client-tools/calls?limit=2&cursor={cursor}")).await;
            seen.extend(ids(&items));
            next = after;
        }
        seen.sort();
        let mut wanted = expected;
        wanted.sort();
        assert_eq!(seen, wanted);
        server.stop().await;
    }
}

#[tokio::test]
async fn a_bad_cursor_is_refused() {
    let server = TestServer::start().await;
    let session = server.session(json!({})).await;
    server.session(json!({})).await;
    let messages = format!("/session/{session}/message");
    for text in ["one", "two"] {
        server.post(&messages, noted(text)).await;
    }
    let of_sessions = page(&server, "/session?limit=1").await.1.unwrap();
    let of_messages = page(&server, &format!("{messages}?limit=1")).await.1.unwrap();
    let bad = ["x", "%00", "e30", "bnVsbA", "eyJtIjoiIn0=", &format!("{of_sessions}A")];
    for cursor in bad {
        for path in ["/session", &messages] {
            let answer = server.get(&format!("{path}?cursor={cursor}")).await;
            assert_eq!((answer.status, &answer.body["name"]), (400, &json!("BadRequest")), "{path} {cursor}");
        }
        let answer = server.get(&format!("/client-tools/calls?cursor={cursor}")).await;
        assert!(answer.must_fail(400, "INVALID_REQUEST").contains("`cursor`"), "{cursor}");
    }
    // Those of another listing, and of messages of another session.
    let other = server.session(json!({})).await;
    for path in [
        format!("/session?cursor={of_messages}"),
        format!("{messages}?cursor={of_sessions}"),
        format!("/session/{other}/message?cursor={of_messages}"),
        format!("/client-tools/calls?cursor={of_sessions}"),
    ] {
        assert_eq!(server.get(&path).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn pages_may_read_where_the_next_one_begins() {
    let server = TestServer::start().await;
    for _ in 0..2 {
        server.session(json!({})).await;
    }
    let request = server.request(Method::GET, "/session?limit=1").header("origin", "http://localhost:3000");
    let response = request.send().await.unwrap();
    assert!(response.headers().contains_key("x-next-cursor"));
    let exposed = response.headers()["access-control-expose-headers"].to_str().unwrap();
    assert!(exposed.split(", ").any(|name| name == "x-next-cursor"), "{exposed}");
}

/// Bytes of each message of a long history, and how many there are.
const LARGE: usize = 1 << 20;
const MANY: usize = 8;

/// A session with a long history; gives the path of its messages.
async fn long_history(server: &TestServer) -> String {
    let session = server.session(json!({})).await;
    let path = format!("/session/{session}/message");
    for number in 0..MANY {
        let text = char::from(b'a' + number as u8).to_string().repeat(LARGE);
        assert_eq!(server.post(&path, noted(&text)).await.status, 200);
    }
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_is_read_as_a_whole() {
    for (server, _scratch) in servers().await {
        let path = long_history(&server).await;
        let mut readers: JoinSet<(Vec<Value>, Option<String>)> = JoinSet::new();
        for limit in ["", "?limit=6"] {
            let request = server.request(Method::GET, &format!("{path}{limit}"));
            readers.spawn(async move {
                let response = request.send().await.unwrap();
                let next = response.headers().get("x-next-cursor").map(|next| next.to_str().unwrap().to_owned());
                (response.json().await.unwrap(), next)
            });
        }
        for (messages, next) in readers.join_all().await {
            let skipped = if next.is_some() { MANY - 6 } else { 0 };
            let letters: String =
                messages.iter().map(|message| &message["parts"][0]["text"].as_str().unwrap()[LARGE - 1..]).collect();
            assert_eq!(letters, &"abcdefgh"[skipped..]);
        }
        server.stop().await;
    }
}

/// Eight readers that take nothing hold on to less than the history: when it is deleted, most of it never comes. And none of
/// them takes what came for the whole.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_holds_a_history_for_its_readers() {
    for (server, _scratch) in servers().await {
        let path = long_history(&server).await;
        let mut readers = Vec::new();
        for _ in 0..8 {
            let mut reader = RawSocket::open_narrow(server.address).await;
            assert_eq!(reader.get(&path).await.status, 200);
            readers.push(reader);
        }
        let session = path.strip_suffix("/message").unwrap();
        assert_eq!(server.delete(session, json!({})).await.status, 200);
        for mut reader in readers {
            let bytes = reader.drain_text().await;
            assert!(bytes.len() < MANY * LARGE / 2, "{} bytes came", bytes.len());
            assert!(!bytes.ends_with("0\r\n\r\n"), "the answer must not look complete");
        }
        server.stop().await;
    }
}
