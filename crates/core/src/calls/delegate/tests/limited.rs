//! Connections and tools of those who are limited to one session: they reach nothing of their client elsewhere.

use super::*;

fn limited(limit: &str) -> Opening {
    Opening { session: Some(session(limit)), ..opening() }
}

fn named(opening: Opening) -> Opening {
    Opening { name: Some(ConnectionName::parse("n").unwrap()), ..opening }
}

fn only_in(limit: &str) -> Placement {
    Placement::OnlyIn(session(limit))
}

async fn call_in(hub: &Hub, in_session: &str) -> OpenCall {
    hub.open(NewCall { session: session(in_session), ..call() }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_taken_up_only_under_its_own_limit() {
    let hub = hub();
    register(&hub);
    let mut whole = connect(&hub);
    let secret = call_in(&hub, "secret").await;
    let (_, _, last) = offered(&mut whole).await;
    // While it is open, and when it is parked.
    let mut thief = hub.connect(Opening { last_seen: Some(last.clone()), ..limited("s1") }).unwrap();
    assert_quiet(&mut thief);
    assert_quiet(&mut whole);
    let mut kept = hub.connect(Opening { last_seen: Some(last), ..with_grace() }).unwrap();
    assert_quiet(&mut kept);
    let (_, _, last) = {
        let _more = call_in(&hub, "secret").await;
        offered(&mut kept).await
    };
    drop(kept);
    let mut thief = hub.connect(Opening { last_seen: Some(last.clone()), ..limited("s1") }).unwrap();
    assert_quiet(&mut thief);
    let mut back = hub.connect(Opening { last_seen: Some(last), ..with_grace() }).unwrap();
    // The call that was given is still its own, and it is told of the one that ended.
    assert!(matches!(back.next().await, Delivery::Cancel { .. }));
    assert_eq!(shown(&hub, &secret.head().request).await.state, CallState::Offered);
}

#[tokio::test(start_paused = true)]
async fn a_name_supersedes_only_under_its_own_limit() {
    let hub = hub();
    register(&hub);
    let mut whole = hub.connect(named(opening())).unwrap();
    let mut one = hub.connect(named(limited("s1"))).unwrap();
    let mut two = hub.connect(named(limited("s2"))).unwrap();
    for connection in [&mut whole, &mut one, &mut two] {
        assert_quiet(connection);
    }
    let _newer = hub.connect(named(limited("s1"))).unwrap();
    assert!(matches!(one.next().await, Delivery::Superseded));
    hub.say_goodbye(&tab(), &ConnectionName::parse("n").unwrap(), Some(&session("s2")));
    assert!(matches!(two.next().await, Delivery::Superseded));
    assert_quiet(&mut whole);
    assert_eq!(hub.counts().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn those_who_leave_take_only_their_own_along() {
    let hub = hub();
    register(&hub);
    let own = ToolSpec { name: ToolName::parse("own").unwrap(), ..spec() };
    hub.register(&tab(), &only_in("s1"), vec![own]).unwrap();
    let mut connection = hub.connect(limited("s1")).unwrap();
    let here = call_in(&hub, "s1").await;
    let elsewhere = call_in(&hub, "s2").await;
    offered(&mut connection).await;
    drop(connection);
    assert_eq!(here.outcome().await.unwrap().outcome.kind(), OutcomeKind::Disconnected);
    assert_eq!(shown(&hub, &elsewhere.head().request).await.state, CallState::Queued);
    let left: Vec<_> = hub.tools().iter().map(|tool| tool.id.to_string()).collect();
    assert_eq!(left, ["client_tab_t"], "what was registered for the whole client stays");
    // The whole client goes by its own clock, and not as long as somebody uses its tools.
    let user = hub.connect(limited("s3")).unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(hub.counts().tools, 1);
    drop((user, elsewhere));
    assert_eq!(hub.counts().tools, 1);
    tokio::time::sleep(Duration::from_secs(301)).await;
    assert_eq!(hub.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn the_whole_client_leaves_what_is_limited_to_a_session() {
    let hub = hub();
    let own = ToolSpec { name: ToolName::parse("own").unwrap(), ..spec() };
    hub.register(&tab(), &only_in("s1"), vec![own, spec()]).unwrap();
    register(&hub);
    let whole = connect(&hub);
    let mut one = hub.connect(limited("s1")).unwrap();
    let here = hub.open(NewCall { timeout: Some(Duration::from_secs(9)), session: session("s1"), ..call() });
    let here = here.await.unwrap();
    let elsewhere = call_in(&hub, "s2").await;
    drop(whole);
    assert_eq!(elsewhere.outcome().await.unwrap().outcome.kind(), OutcomeKind::Disconnected);
    assert_eq!(offered(&mut one).await.0, here.head().request);
    let left: Vec<_> = hub.tools().iter().map(|tool| tool.id.to_string()).collect();
    assert_eq!(left, ["client_tab_own", "client_tab_t"], "both are registered for the session by its own");
    assert_eq!(hub.tools_of(&tab(), Some(&session("s2"))).len(), 0);
    drop(one);
    assert_eq!(here.outcome().await.unwrap().outcome.kind(), OutcomeKind::Disconnected);
    assert_eq!(hub.counts(), Counts::default());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_another_may_take_does_not_end_with_the_one_that_left() {
    let hub = hub();
    register(&hub);
    let mut whole = hub.connect(with_grace()).unwrap();
    let one = hub.connect(limited("s1")).unwrap();
    let first = call_in(&hub, "s1").await;
    let second = call_in(&hub, "s1").await;
    drop(one);
    offered(&mut whole).await;
    offered(&mut whole).await;
    // The other is lost, and may return.
    drop(whole);
    let one = hub.connect(limited("s1")).unwrap();
    drop(one);
    for call in [&first, &second] {
        assert_eq!(shown(&hub, &call.head().request).await.state, CallState::Queued);
    }
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(first.outcome().await.unwrap().outcome.kind(), OutcomeKind::Disconnected);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_seen_as_far_as_one_reaches() {
    let hub = hub();
    register(&hub);
    hub.register(&tab(), &only_in("s1"), vec![ToolSpec { name: ToolName::parse("own").unwrap(), ..spec() }]).unwrap();
    let _whole = connect(&hub);
    let _one = hub.connect(limited("s1")).unwrap();
    let _calls = (call_in(&hub, "s1").await, call_in(&hub, "s2").await);
    let seen = |limit: Option<&str>| {
        let row = hub.client(&tab(), limit.map(session).as_ref()).unwrap();
        (row.connections, row.tools, row.calls)
    };
    assert_eq!([seen(None), seen(Some("s1")), seen(Some("s3"))], [(2, 2, 2), (1, 2, 1), (0, 1, 0)]);
}
