//! The connection that a prompt came from gets the calls of its turn, as long as it is there.

use super::*;

fn name(text: &str) -> ConnectionName {
    ConnectionName::parse(text).unwrap()
}

/// Two tabs of one page; the second is the newer.
fn tabs(hub: &Hub, grace: u64) -> [Connection; 2] {
    let grace = Duration::from_secs(grace);
    ["one", "two"].map(|tab| hub.connect(Opening { name: Some(name(tab)), grace, ..opening() }).unwrap())
}

async fn call_from(hub: &Hub, tab: &str) -> OpenCall {
    hub.open(NewCall { connection: Some(name(tab)), timeout: Some(Duration::from_secs(100)), ..call() }).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn calls_go_to_the_connection_that_they_prefer_however_much_it_has_to_do() {
    let hub = hub();
    register(&hub);
    let [mut one, mut two] = tabs(&hub, 0);
    let mut open = Vec::new();
    for _ in 0..10 {
        open.push(call_from(&hub, "one").await);
        assert_eq!(offered(&mut one).await.0, open.last().unwrap().head().request);
    }
    assert_quiet(&mut two);
    open.push(call_from(&hub, "two").await);
    offered(&mut two).await;
    // One that nobody knows is none.
    open.push(call_from(&hub, "three").await);
    assert_eq!(offered(&mut two).await.0, open.last().unwrap().head().request);
    assert_quiet(&mut one);
}

#[tokio::test(start_paused = true)]
async fn they_wait_for_its_return_and_then_go_to_another() {
    let hub = hub();
    register(&hub);
    let [mut one, mut two] = tabs(&hub, 30);
    let given = call_from(&hub, "one").await;
    offered(&mut one).await;
    drop(one);
    let made_meanwhile = call_from(&hub, "one").await;
    assert_quiet(&mut two);
    tokio::time::sleep(Duration::from_millis(9_900)).await;
    assert_quiet(&mut two);
    // It is back in time: both are its own.
    let mut one = hub.connect(Opening { name: Some(name("one")), ..with_grace() }).unwrap();
    assert_eq!(offered(&mut one).await.0, given.head().request);
    assert_eq!(offered(&mut one).await.0, made_meanwhile.head().request);
    drop(one);
    let before = Instant::now();
    assert_eq!(offered(&mut two).await.0, given.head().request);
    assert_eq!(offered(&mut two).await.0, made_meanwhile.head().request);
    assert_eq!(before.elapsed().as_secs(), 10, "another gets them after 10 s, though the grace is longer");
}

#[tokio::test(start_paused = true)]
async fn a_shorter_grace_counts_and_without_one_or_after_a_goodbye_another_gets_them_at_once() {
    let hub = hub();
    register(&hub);
    let [one, mut two] = tabs(&hub, 3);
    let open = call_from(&hub, "one").await;
    drop(one);
    let before = Instant::now();
    assert_eq!(offered(&mut two).await.0, open.head().request);
    assert_eq!(before.elapsed().as_secs(), 3);
    drop((open, two));

    let [one, mut two] = tabs(&hub, 0);
    let open = call_from(&hub, "one").await;
    drop(one);
    assert_eq!(offered(&mut two).await.0, open.head().request);
    drop((open, two));

    register(&hub);
    let [mut one, mut two] = tabs(&hub, 30);
    let open = call_from(&hub, "one").await;
    offered(&mut one).await;
    hub.say_goodbye(&tab(), &name("one"), None);
    assert_eq!(offered(&mut two).await.0, open.head().request);
    assert!(matches!(one.next().await, Delivery::Superseded));
    // One that says so after it was lost is not waited for either.
    let lost = call_from(&hub, "two").await;
    offered(&mut two).await;
    let mut three = hub.connect(Opening { name: Some(name("three")), ..opening() }).unwrap();
    drop(two);
    assert_eq!(offered(&mut three).await.0, open.head().request);
    assert_quiet(&mut three);
    hub.say_goodbye(&tab(), &name("two"), None);
    assert_eq!(offered(&mut three).await.0, lost.head().request);
}

#[tokio::test(start_paused = true)]
async fn they_do_not_wait_for_one_that_is_given_up() {
    let hub = hub();
    register(&hub);
    let grace = Duration::from_secs(30);
    let preferred = hub.connect(Opening { name: Some(name("one")), grace, ..opening() }).unwrap();
    let mut limited = hub.connect(Opening { session: Some(session("s")), ..opening() }).unwrap();
    drop(preferred);
    // The client is there, and what keeps it from now on is what this one asks for: nothing.
    let unlimited = hub.connect(opening()).unwrap();
    let call = NewCall { connection: Some(name("one")), session: session("s"), ..call() };
    let open = hub.open(call).await.unwrap();
    assert_quiet(&mut limited);
    drop(unlimited);
    let before = Instant::now();
    assert_eq!(offered(&mut limited).await.0, open.head().request);
    assert_eq!(before.elapsed(), Duration::ZERO);
}
