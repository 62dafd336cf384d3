use std::collections::HashMap as StdHashMap;

use tokio_util::task::TaskTracker;

use super::*;
use crate::calls::OpenCall;
use crate::calls::delegate::tests::{call, spec};
use crate::calls::delegate::{Actor, Callee, NewCall, NotTaken, Refusal, Taken};
use crate::calls::hub::{Counts, Hub};
use crate::clock::Clock;
use crate::events::Topic;
use crate::id::{ToolId, ToolName};
use crate::store::{MemoryStore, Outcome};
use crate::tools::Placement;

fn client(name: &str) -> ClientId {
    ClientId::parse(name).unwrap()
}

fn hub(limits: Limits) -> Hub {
    // What the table forgets, the store has not kept.
    let store = MemoryStore::new(&Limits { stored_calls: 0, ..Limits::default() });
    Hub::new(limits, Clock::system(), Arc::new(store), TaskTracker::new())
}

/// Names of clients in different shards.
fn apart() -> (ClientId, ClientId) {
    let one = client("c0");
    let other = (1..).map(|number| client(&format!("c{number}"))).find(|other| shard_of(other) != shard_of(&one));
    (one, other.unwrap())
}

fn register(hub: &Hub, owner: &ClientId) {
    hub.register(owner, &Placement::Everywhere, vec![spec()]).unwrap();
}

async fn open(hub: &Hub, owner: &ClientId, request: Option<&str>) -> Result<OpenCall, Refusal> {
    let tool = ToolId::new(owner, &ToolName::parse("t").unwrap()).to_string();
    hub.open(NewCall {
        callee: Callee::Registered { tool, client: None },
        request: request.map(|request| RequestId::parse(request).unwrap()),
        ..call()
    })
    .await
}

async fn complete(hub: &Hub, request: &str) -> Result<Taken, NotTaken> {
    let outcome = Outcome::Error("no".into());
    hub.complete(&RequestId::parse(request).unwrap(), &Actor::Trusted, outcome).await
}

fn count_elsewhere(hub: &Hub) -> usize {
    hub.0.shards.elsewhere.count()
}

/// An id that does not name the shard of any of these.
fn foreign(clients: &[&ClientId]) -> String {
    let of_none = |id: &String| clients.iter().all(|of| named_by(&RequestId::parse(id).unwrap()) != Some(shard_of(of)));
    ["a", "é!", "r!"].into_iter().map(str::to_owned).find(of_none).unwrap()
}

#[tokio::test]
async fn our_own_ids_say_where_a_call_is() {
    let hub = hub(Limits::default());
    for number in 0..100 {
        let owner = client(&format!("c{number}"));
        register(&hub, &owner);
        let call = open(&hub, &owner, None).await.unwrap();
        assert_eq!(named_by(&call.head().request), Some(shard_of(&owner)));
        assert_eq!(complete(&hub, call.head().request.as_str()).await.unwrap(), Taken::First);
        call.outcome().await.unwrap();
    }
    assert_eq!(count_elsewhere(&hub), 0);
    assert_eq!(hub.counts().clients, 100);
}

#[tokio::test(start_paused = true)]
async fn an_id_of_somebody_else_names_one_call_wherever_it_is() {
    let limits = Limits::default();
    let remembered = limits.remembered_for;
    let hub = hub(limits);
    let (one, other) = apart();
    register(&hub, &one);
    register(&hub, &other);
    let own = open(&hub, &other, None).await.unwrap();
    let named = own.head().request.as_str();
    assert!(matches!(open(&hub, &one, Some(named)).await, Err(Refusal::DuplicateRequest(_))), "it is another's");
    for id in [foreign(&[&one, &other]), "it names nothing".to_owned()] {
        let first = open(&hub, &one, Some(&id)).await.unwrap();
        drop(open(&hub, &one, Some(&id)).await.unwrap());
        assert!(matches!(open(&hub, &other, Some(&id)).await, Err(Refusal::DuplicateRequest(_))), "it is another call");
        assert_eq!(complete(&hub, &id).await.unwrap(), Taken::First);
        assert_eq!(complete(&hub, &id).await.unwrap(), Taken::Again);
        first.outcome().await.unwrap();
        assert!(matches!(open(&hub, &other, Some(&id)).await, Err(Refusal::Forgotten(_))), "it is remembered");
        tokio::time::advance(remembered).await;
        register(&hub, &one);
        register(&hub, &other);
        let anew = open(&hub, &other, Some(&id)).await.unwrap();
        assert_eq!(anew.head().client(), &other);
        assert_eq!(complete(&hub, &id).await.unwrap(), Taken::First);
        anew.outcome().await.unwrap();
    }
    // Nothing is kept of what is forgotten.
    tokio::time::advance(remembered).await;
    hub.everywhere(|table| table.expire_due(tokio::time::Instant::now())).for_each(drop);
    assert_eq!(count_elsewhere(&hub), 0);
    assert!(matches!(complete(&hub, "it names nothing").await, Err(NotTaken::Unknown)));
}

/// An id that names the shard of one client, and is used first for a call of another.
#[tokio::test]
async fn an_id_that_is_taken_elsewhere_is_taken_where_it_names_a_shard() {
    let hub = hub(Limits::default());
    let (one, other) = apart();
    register(&hub, &one);
    register(&hub, &other);
    let id = hub.request_id(&other).to_string();
    let call = open(&hub, &one, Some(&id)).await.unwrap();
    assert!(matches!(open(&hub, &other, Some(&id)).await, Err(Refusal::DuplicateRequest(_))));
    assert_eq!(complete(&hub, &id).await.unwrap(), Taken::First);
    assert_eq!(call.outcome().await.unwrap().head.client(), &one);
    assert!(matches!(open(&hub, &other, Some(&id)).await, Err(Refusal::Forgotten(_))), "it is remembered");
}

/// Somebody tries to make a call of an id that is another's: that one is found all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_call_is_found_while_others_want_its_id() {
    let hub = hub(Limits::default());
    let (one, other) = apart();
    register(&hub, &one);
    register(&hub, &other);
    let call = open(&hub, &other, None).await.unwrap();
    let request = call.head().request.clone();
    let (wanting, id) = (hub.clone(), request.to_string());
    let tasks = TaskTracker::new();
    let others = tasks.spawn(async move {
        for _ in 0..5_000 {
            assert!(matches!(open(&wanting, &one, Some(&id)).await, Err(Refusal::DuplicateRequest(_))));
        }
    });
    while !others.is_finished() {
        assert!(hub.of_call(&request, |table| table.calls.contains_key(&request)));
    }
    others.await.unwrap();
}

/// The two go different ways to the same id: of those at the same moment at most one is made.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_an_id_that_names_a_shard_one_call_is_made_at_most() {
    let hub = hub(Limits::default());
    let (one, other) = apart();
    register(&hub, &one);
    register(&hub, &other);
    let tasks = TaskTracker::new();
    for round in 0..2_000 {
        let id = hub.request_id(&other).to_string();
        let racing = [&one, &other].map(|owner| {
            let (hub, owner, id) = (hub.clone(), owner.clone(), id.clone());
            tasks.spawn(async move { open(&hub, &owner, Some(&id)).await.ok() })
        });
        let mut made = Vec::new();
        for racing in racing {
            made.extend(racing.await.unwrap());
        }
        assert!(made.len() <= 1, "round {round}");
        for call in made {
            assert_eq!(complete(&hub, &id).await.unwrap(), Taken::First);
            call.outcome().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_busy_client_does_not_make_those_of_others_forgotten() {
    let hub = hub(Limits { remembered_calls: 4 * usize::from(SHARDS), ..Limits::default() });
    let (busy, other) = apart();
    register(&hub, &busy);
    register(&hub, &other);
    for number in 0..5 * usize::from(SHARDS) {
        let id = format!("busy {number}");
        let call = open(&hub, &busy, Some(&id)).await.unwrap();
        complete(&hub, &id).await.unwrap();
        call.outcome().await.unwrap();
    }
    for id in ["a", "b", "c", "d"] {
        let call = open(&hub, &other, Some(id)).await.unwrap();
        complete(&hub, id).await.unwrap();
        call.outcome().await.unwrap();
    }
    assert_eq!(complete(&hub, "a").await.unwrap(), Taken::Again);
    assert!(matches!(open(&hub, &other, Some("a")).await, Err(Refusal::Forgotten(_))));
}

#[tokio::test]
async fn what_is_refused_leaves_no_id_behind() {
    let hub = hub(Limits { calls_per_client: 1, ..Limits::default() });
    let (one, other) = apart();
    register(&hub, &one);
    let id = foreign(&[&one, &other]);
    let _first = open(&hub, &one, None).await.unwrap();
    assert!(matches!(open(&hub, &one, Some(&id)).await, Err(Refusal::Overloaded)));
    assert_eq!(count_elsewhere(&hub), 0);
    register(&hub, &other);
    open(&hub, &other, Some(&id)).await.unwrap();
}

#[tokio::test]
async fn so_many_finished_calls_are_remembered_in_all_shards_together() {
    let hub = hub(Limits { remembered_calls: 100, ..Limits::default() });
    let owners: Vec<ClientId> = (0..50).map(|number| client(&format!("c{number}"))).collect();
    owners.iter().for_each(|owner| register(&hub, owner));
    let mut last = Vec::new();
    for round in 0..10 {
        for owner in &owners {
            let id = format!("{round} of {owner}");
            let call = open(&hub, owner, Some(&id)).await.unwrap();
            complete(&hub, &id).await.unwrap();
            call.outcome().await.unwrap();
            last.push(id);
        }
    }
    let remembered = hub.0.shards.common().remembered.load(Ordering::Relaxed);
    assert!((100..=100 + usize::from(SHARDS)).contains(&remembered), "{remembered}");
    assert!(count_elsewhere(&hub) <= remembered);
    assert_eq!(complete(&hub, last.last().unwrap()).await.unwrap(), Taken::Again);
    assert!(matches!(complete(&hub, &last[0]).await, Err(NotTaken::Unknown)));
    // One busy client has them all if nobody else has any.
    let alone = self::hub(Limits { remembered_calls: 100, ..Limits::default() });
    register(&alone, &owners[0]);
    for number in 0..150 {
        let call = open(&alone, &owners[0], Some(&format!("{number}"))).await.unwrap();
        complete(&alone, &format!("{number}")).await.unwrap();
        call.outcome().await.unwrap();
    }
    assert_eq!(complete(&alone, "50").await.unwrap(), Taken::Again);
    assert!(matches!(complete(&alone, "49").await, Err(NotTaken::Unknown)));
}

/// Calls are answered by other threads than those that make them: whoever listens is told of each in order all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_one_id_one_call_is_made_and_its_events_come_in_order() {
    let hub = hub(Limits::default());
    let mut listener = hub.subscribe(Topic::Everything);
    let owners: Vec<ClientId> = (0..8).map(|number| client(&format!("c{number}"))).collect();
    owners.iter().for_each(|owner| register(&hub, owner));
    let tasks = TaskTracker::new();
    for round in 0..200 {
        let mut racing = Vec::new();
        for owner in &owners {
            let (making, owner) = (hub.clone(), owner.clone());
            racing.push(tasks.spawn(async move { open(&making, &owner, Some(&format!("round {round}"))).await.ok() }));
            let hub = hub.clone();
            tasks.spawn(async move {
                let id = format!("round {round}");
                while let Err(NotTaken::Unknown | NotTaken::NotAllowedYet) = complete(&hub, &id).await {
                    tokio::task::yield_now().await;
                }
            });
        }
        let mut made = 0;
        for racing in racing {
            if let Some(call) = racing.await.unwrap() {
                made += 1;
                assert!(matches!(call.outcome().await.unwrap().outcome, Outcome::Error(_)), "round {round}");
            }
        }
        assert_eq!(made, 1, "round {round}");
    }
    let mut told: StdHashMap<RequestId, Vec<&str>> = StdHashMap::new();
    for _ in 0..owners.len() + 3 * 200 {
        let emitted = listener.next().await.unwrap();
        let (head, name) = match &emitted.event {
            Event::Requested(head) => (head, "requested"),
            Event::Executing(head) => (head, "executing"),
            Event::Finished(call) => (&call.head, "finished"),
            _ => continue,
        };
        told.entry(head.request.clone()).or_default().push(name);
    }
    assert_eq!(told.len(), 200);
    assert!(told.values().all(|names| *names == ["requested", "executing", "finished"]), "{told:?}");
}

/// Whoever makes the same call at the same moment joins it: none is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_equal_calls_at_once_one_is_made_and_the_others_join_it() {
    let store = Arc::new(MemoryStore::default());
    let hub = Hub::new(Limits::default(), Clock::system(), store, TaskTracker::new());
    let (one, other) = apart();
    register(&hub, &one);
    let tasks = TaskTracker::new();
    for round in 0..200 {
        // Ids that name the shard of the client, another one, and none.
        let id = match round % 3 {
            0 => hub.request_id(&one).to_string(),
            1 => hub.request_id(&other).to_string(),
            _ => format!("round {round}"),
        };
        let start = Arc::new(tokio::sync::Barrier::new(4));
        let callers: Vec<_> = (0..4)
            .map(|_| {
                let (hub, one, id, start) = (hub.clone(), one.clone(), id.clone(), start.clone());
                tasks.spawn(async move {
                    start.wait().await;
                    open(&hub, &one, Some(&id)).await.unwrap().outcome().await.unwrap()
                })
            })
            .collect();
        while let Err(NotTaken::Unknown | NotTaken::NotAllowedYet) = complete(&hub, &id).await {
            tokio::task::yield_now().await;
        }
        for caller in callers {
            assert!(matches!(caller.await.unwrap().outcome, Outcome::Error(_)), "round {round}");
        }
    }
    assert_eq!(hub.metrics().under_way(), 0);
}

/// Many threads make calls of one client: when all are over and the client is gone, nothing of it is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn calls_of_one_client_that_are_made_at_once_leave_nothing_behind() {
    let hub = hub(Limits::default());
    let owner = client("busy");
    register(&hub, &owner);
    let tasks = TaskTracker::new();
    for number in 0..2_000 {
        let (hub, owner) = (hub.clone(), owner.clone());
        tasks.spawn(async move {
            let id = format!("call {number}");
            let call = open(&hub, &owner, Some(&id)).await.unwrap();
            complete(&hub, &id).await.unwrap();
            call.outcome().await.unwrap();
        });
    }
    tasks.close();
    tasks.wait().await;
    hub.unregister(&owner, None, None);
    assert_eq!(hub.counts(), Counts::default());
    assert_eq!(hub.0.shards.common().clients.load(Ordering::Relaxed), 0);
}
