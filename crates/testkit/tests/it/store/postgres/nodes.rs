//! The nodes that share a database, and their leases.

use std::time::Duration;

use handback_core::clock::Clock;
use handback_core::cluster::{LEASE, Load, Membership, MemoryNodes, NodeStore};
use handback_core::id::NodeId;
use handback_testkit::TestDatabase;
use handback_testkit::postgres::query;

use super::open;

/// What is shown of each node: its number, its name, and what it has to do.
async fn shown(nodes: &dyn NodeStore) -> Vec<(i64, String, Load)> {
    let nodes = nodes.nodes().await.unwrap();
    nodes.iter().map(|node| (node.id.number(), node.name.to_string(), node.load)).collect()
}

/// The same for nodes in memory and in a database.
async fn nodes_come_and_go(nodes: &dyn NodeStore) {
    let one = nodes.join("one:4096", None).await.unwrap();
    let two = nodes.join("two:4096", None).await.unwrap();
    let load = Load { sessions: 1, clients: 2, calls: u64::from(u32::MAX) + 1 };
    let before = nodes.renew(two, load).await.unwrap().unwrap();
    assert!(nodes.renew(two, load).await.unwrap().unwrap() >= before);
    let known = [(one.number(), "one:4096".to_owned(), Load::default()), (two.number(), "two:4096".to_owned(), load)];
    assert_eq!(shown(nodes).await, known);
    for node in nodes.nodes().await.unwrap() {
        assert!(node.lease > LEASE / 2 && node.lease <= LEASE, "{:?}", node.lease);
    }
    // Whoever has left has no lease, and no other node gets the number.
    nodes.leave(two).await.unwrap();
    assert_eq!(nodes.renew(two, load).await.unwrap(), None);
    let three = nodes.join("three:4096", None).await.unwrap();
    assert!(three > two && two > one);
    // One that joins again has its number, and what it had to do before is over.
    nodes.renew(one, load).await.unwrap();
    assert_eq!(nodes.join("one:4096", Some(one)).await.unwrap(), one);
    assert_eq!(nodes.join("two:4096", Some(two)).await.unwrap(), two);
    let names = shown(nodes).await.into_iter().map(|(number, name, load)| {
        assert_eq!(load, Load::default(), "{name}");
        (number, name)
    });
    let expected = [(one, "one:4096"), (two, "two:4096"), (three, "three:4096")];
    let expected = expected.map(|(node, name)| (node.number(), name.to_owned()));
    assert_eq!(names.collect::<Vec<_>>(), expected);
    assert_eq!(nodes.renew(NodeId::new(i64::MAX), load).await.unwrap(), None);
}

#[tokio::test]
async fn nodes_come_and_go_in_memory() {
    nodes_come_and_go(&MemoryNodes::new(Clock::running())).await;
}

#[tokio::test]
async fn nodes_come_and_go_in_a_database() {
    let database = TestDatabase::create();
    nodes_come_and_go(&*open(&database.url()).await).await;
}

#[tokio::test]
async fn a_lease_that_is_over_cannot_be_renewed() {
    let database = TestDatabase::create();
    let nodes = open(&database.url()).await;
    let node = nodes.join("here:4096", None).await.unwrap();
    query(&database.url(), "UPDATE handback.node SET lease_until = clock_timestamp() - INTERVAL '1 second'").unwrap();
    assert_eq!(nodes.renew(node, Load::default()).await.unwrap(), None);
    assert_eq!(nodes.nodes().await.unwrap()[0].lease, Duration::ZERO);
    // Those that are long gone are forgotten when another one comes.
    query(&database.url(), "UPDATE handback.node SET lease_until = clock_timestamp() - INTERVAL '2 hours'").unwrap();
    let next = nodes.join("there:4096", None).await.unwrap();
    assert_eq!(shown(&*nodes).await, [(next.number(), "there:4096".to_owned(), Load::default())]);
}

/// Whatever the machine's clock shows.
#[tokio::test]
async fn a_nodes_clock_shows_the_databases_time() {
    let database = TestDatabase::create();
    let (nodes, clock) = (open(&database.url()).await, Clock::system());
    let machine = clock.now();
    clock.set(machine + Duration::from_secs(3_600));
    assert!(clock.now() >= machine + Duration::from_secs(3_600));
    Membership::join(nodes, clock.clone(), "here:4096").await.unwrap();
    let skew = clock.now().duration_since(machine).unwrap();
    // Here the database has the same clock as the machine.
    assert!(skew < Duration::from_secs(60), "{skew:?}");
}
