//! Coming back: grace, `Last-Event-ID`, and what was missed.

use std::time::Duration;

use handback_testkit::stream::End;
use handback_testkit::{TestServer, TestStream};
use serde_json::json;

const GRACE: &str = "tab?grace=60000";

async fn with_client() -> (TestServer, TestStream, String) {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let stream = server.stream(GRACE).await;
    (server, stream, ids[0].clone())
}

async fn begin(server: &TestServer, tool: &str, request: &str) {
    server.begin_call(json!({ "toolID": tool, "requestID": request })).await;
}

/// Closes a stream and waits until the server has noticed.
async fn leave(server: &TestServer, stream: TestStream) {
    drop(stream);
    server.until("the connection is gone", |counts| counts.connections == 0).await;
}

#[tokio::test]
async fn within_the_grace_tools_and_calls_stay_and_results_are_taken() {
    let (server, mut stream, tool) = with_client().await;
    let call = server.execute(json!({ "toolID": tool, "requestID": "r" }));
    stream.expect_call("r").await;
    leave(&server, stream).await;
    assert_eq!(server.get("/client-tools/tools/tab").await.body[0]["id"], tool.as_str());
    assert_eq!(server.call("r").await["state"], "queued");
    server.answer("r", "from afar").await.must_be(200, &json!({ "success": true }));
    assert_eq!(call.await.unwrap().body["output"], "from afar");
    // It is over, so it does not come again.
    let mut stream = server.stream(GRACE).await;
    begin(&server, &tool, "next").await;
    stream.expect_call("next").await;
}

#[tokio::test]
async fn with_the_last_event_id_a_reader_gets_what_it_missed_and_not_what_it_saw() {
    let (server, mut stream, tool) = with_client().await;
    for request in ["seen", "last", "missed1", "missed2"] {
        begin(&server, &tool, request).await;
    }
    stream.expect_call("seen").await;
    let last = stream.expect_call("last").await;
    // The test reads them, but says that it did not.
    let missed = [stream.expect_call("missed1").await, stream.expect_call("missed2").await];
    leave(&server, stream).await;
    begin(&server, &tool, "while-away").await;

    let mut stream = server.resume(GRACE, &last.id).await;
    for frame in missed {
        // The very same frame, with its id and its attempt.
        assert_eq!(stream.next().await, frame);
    }
    let new = stream.expect_call("while-away").await;
    assert_eq!(new.data["attempt"], 1);
    for request in ["seen", "last"] {
        let call = server.call(request).await;
        assert_eq!((&call["state"], &call["attempt"]), (&json!("offered"), &json!(1)), "{request}");
        server.answer(request, "").await.must_be(200, &json!({ "success": true }));
    }
    begin(&server, &tool, "next").await;
    stream.expect_call("next").await;
}

#[tokio::test]
async fn a_reader_that_saw_everything_gets_nothing_again() {
    let (server, mut stream, tool) = with_client().await;
    begin(&server, &tool, "r").await;
    let last = stream.expect_call("r").await;
    for round in 0..3 {
        leave(&server, stream).await;
        stream = server.resume(GRACE, &last.id).await;
        server.until_state("r", "offered").await;
        assert_eq!(server.call("r").await["attempt"], 1, "round {round}");
    }
    server.cancel("r", "told on the last connection").await;
    assert_eq!(stream.expect("tool-cancel").await.request_id(), "r");
}

#[tokio::test]
async fn without_the_last_event_id_unanswered_calls_are_offered_again() {
    let (server, mut stream, tool) = with_client().await;
    for request in ["a", "answered", "b"] {
        begin(&server, &tool, request).await;
        stream.expect_call(request).await;
    }
    server.answer("answered", "").await;
    leave(&server, stream).await;
    let mut stream = server.stream(GRACE).await;
    for request in ["a", "b"] {
        assert_eq!(stream.expect_call(request).await.data["attempt"], 2);
    }
    leave(&server, stream).await;
    let mut stream = server.stream(GRACE).await;
    for request in ["a", "b"] {
        assert_eq!(stream.expect_call(request).await.data["attempt"], 3);
    }
}

#[tokio::test]
async fn a_last_event_id_that_means_nothing_here_is_as_good_as_none() {
    let (server, mut stream, tool) = with_client().await;
    begin(&server, &tool, "r").await;
    let id = stream.expect_call("r").await.id;
    let number = id.rsplit_once('-').unwrap().1;
    let mut attempt = 1;
    for id in [&format!("otherepoch-{number}"), "nonsense", "-", "1", &format!("{id}9"), "ä-1"] {
        leave(&server, stream).await;
        stream = server.resume(GRACE, id).await;
        attempt += 1;
        assert_eq!(stream.expect_call("r").await.data["attempt"], attempt, "{id}");
    }
}

#[tokio::test]
async fn another_clients_last_event_id_gives_nothing_of_that_client() {
    let (server, mut stream, tool) = with_client().await;
    for request in ["one", "two"] {
        begin(&server, &tool, request).await;
    }
    let first = stream.expect_call("one").await;
    stream.expect_call("two").await;
    leave(&server, stream).await;
    let others = server.register("other", &["t"]).await;
    let mut other = server.resume("other?grace=1000", &first.id).await;
    begin(&server, &others[0], "own").await;
    other.expect_call("own").await;
}

#[tokio::test]
async fn cancels_missed_while_away_are_replayed() {
    let (server, mut stream, tool) = with_client().await;
    for request in ["cancelled", "kept"] {
        begin(&server, &tool, request).await;
    }
    stream.expect_call("cancelled").await;
    let last = stream.expect_call("kept").await;
    leave(&server, stream).await;
    server.cancel("cancelled", "while you were away").await;

    let mut stream = server.resume(GRACE, &last.id).await;
    let cancel = stream.expect("tool-cancel").await;
    assert_eq!(cancel.data, json!({ "requestID": "cancelled", "reason": "while you were away" }));
    begin(&server, &tool, "next").await;
    stream.expect_call("next").await;
    // Once seen, it is not told again.
    leave(&server, stream).await;
    let mut stream = server.resume(GRACE, &cancel.id).await;
    stream.expect_call("next").await;
}

#[tokio::test]
async fn a_call_that_ended_before_its_reader_saw_it_is_not_replayed_as_a_call() {
    let (server, mut stream, tool) = with_client().await;
    for request in ["seen", "ended", "open"] {
        begin(&server, &tool, request).await;
    }
    let last = stream.expect_call("seen").await;
    stream.expect_call("ended").await;
    stream.expect_call("open").await;
    leave(&server, stream).await;
    server.cancel("ended", "no").await;
    let mut stream = server.resume(GRACE, &last.id).await;
    begin(&server, &tool, "next").await;
    let mut calls = Vec::new();
    while calls.last().is_none_or(|request| request != "next") {
        let frame = stream.next().await;
        if frame.event == "tool-request" {
            calls.push(frame.request_id().to_owned());
        } else {
            assert_eq!((frame.event.as_str(), frame.request_id()), ("tool-cancel", "ended"));
        }
    }
    assert_eq!(calls, ["open", "next"]);
}

#[tokio::test]
async fn a_reader_that_comes_back_while_its_old_connection_is_half_open_takes_over_from_it() {
    let (server, mut old, tool) = with_client().await;
    begin(&server, &tool, "r").await;
    let last = old.expect_call("r").await;
    let _new = server.resume(GRACE, &last.id).await;
    assert_eq!(old.end().await, (vec![], End::Clean));
    assert_eq!(server.counts().connections, 1);
    let call = server.call("r").await;
    assert_eq!((&call["state"], &call["attempt"]), (&json!("offered"), &json!(1)));
}

#[tokio::test]
async fn a_reader_further_behind_than_what_is_kept_is_offered_its_calls_anew() {
    let server = TestServer::with(|config| config.limits.replay = 4).await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream(GRACE).await;
    begin(&server, &ids[0], "r0").await;
    let first = stream.expect_call("r0").await;
    for n in 1..=8 {
        begin(&server, &ids[0], &format!("r{n}")).await;
        stream.expect_call(&format!("r{n}")).await;
    }
    leave(&server, stream).await;
    let mut stream = server.resume(GRACE, &first.id).await;
    for n in 0..=8 {
        let frame = stream.expect_call(&format!("r{n}")).await;
        assert_eq!(frame.data["attempt"], 2, "{frame:?}");
    }
}

#[tokio::test]
async fn when_the_grace_is_over_tools_and_calls_end() {
    let server = TestServer::start().await;
    let ids = server.register("tab", &["t"]).await;
    let mut stream = server.stream("tab?grace=100").await;
    let call = server.execute(json!({ "toolID": ids[0], "requestID": "r" }));
    stream.expect_call("r").await;
    leave(&server, stream).await;
    call.await.unwrap().must_fail(502, "CLIENT_DISCONNECTED");
    server.until("nothing is left", |counts| counts.clients == 0 && counts.tools == 0).await;
    server.answer("r", "too late").await.must_fail(410, "GONE");
}

#[tokio::test]
async fn a_grace_beyond_the_largest_is_cut_to_it() {
    let server = TestServer::with(|config| config.limits.largest_grace = Duration::from_millis(50)).await;
    server.register("tab", &["t"]).await;
    drop(server.stream("tab?grace=99999999999").await);
    server.until("nothing is left", |counts| counts.clients == 0 && counts.tools == 0).await;
}

#[tokio::test]
async fn coming_back_ends_the_grace_and_a_connection_without_one_does_not_inherit_it() {
    let (server, stream, _) = with_client().await;
    leave(&server, stream).await;
    drop(server.stream("tab").await);
    server.until("nothing is left", |counts| counts.clients == 0 && counts.tools == 0).await;
}

#[tokio::test]
async fn a_named_reader_that_takes_over_from_itself_with_its_last_event_id_keeps_its_calls() {
    let (server, stream, tool) = with_client().await;
    leave(&server, stream).await;
    let named = "tab?grace=60000&connection=main";
    let mut old = server.stream(named).await;
    for request in ["seen", "missed"] {
        begin(&server, &tool, request).await;
    }
    let last = old.expect_call("seen").await;
    let missed = old.expect_call("missed").await;
    let mut new = server.resume(named, &last.id).await;
    assert_eq!(new.next().await, missed);
    assert_eq!(server.call("seen").await["attempt"], 1);
    begin(&server, &tool, "next").await;
    new.expect_call("next").await;
}

#[tokio::test]
async fn a_call_that_another_connection_has_taken_over_is_not_taken_back() {
    let (server, mut first, tool) = with_client().await;
    begin(&server, &tool, "r").await;
    let seen = first.expect_call("r").await;
    let mut second = server.stream("tab").await;
    drop(first);
    assert_eq!(second.expect_call("r").await.data["attempt"], 2);
    let mut first = server.resume(GRACE, &seen.id).await;
    // The first has nothing to do, so the next call goes to it, and nothing comes before that.
    begin(&server, &tool, "next").await;
    first.expect_call("next").await;
    assert_eq!(server.call("r").await["attempt"], 2);
    // Whoever of the two answers, it counts.
    server.answer("r", "done").await.must_be(200, &json!({ "success": true }));
}
