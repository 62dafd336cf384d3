//! Random interleavings of everything that can happen to calls, against the rules.

use std::collections::{HashMap as StdHashMap, HashSet};

use futures_util::FutureExt;
use proptest::prelude::*;
use tokio::task::JoinHandle;
use tokio_util::task::TaskTracker;

use super::*;
use crate::calls::connection::{Connection, Delivery, Opening};
use crate::calls::delegate::tests::spec;
use crate::calls::delegate::{Actor, Callee, NewCall, NotTaken, Taken};
use crate::calls::frontend::Claim;
use crate::calls::hub::{Counts, Hub};
use crate::clock::Clock;
use crate::id::{CallId, EventId, MessageId};
use crate::limits::Clocks;
use crate::limits::Limits;
use crate::store::{Ack, AckStatus, Answer, CallState, MemoryStore, Most, OutcomeKind, Reply, Success, Tool};
use crate::tools::{Permission, Placement};

impl Table {
    /// The invariants that the module's documentation names.
    fn assert_consistent(&self) {
        let mut open = 0;
        for (id, client) in &self.clients {
            open += client.open.len();
            assert!(client.open.is_sorted_by_key(|(number, _)| *number));
            for (number, request) in &client.open {
                let call = &self.calls[request];
                assert_eq!((call.number, call.head.client()), (*number, id));
                if let Some(link) = call.link() {
                    let link = client.links.iter().find(|known| known.id == link);
                    let link = link.unwrap_or_else(|| panic!("{request} is with a closed connection"));
                    let assigned = call.stage == Stage::Assigned(link.id);
                    assert!(!assigned || link.outbox.will_offer(request), "{request} is in nobody's outbox");
                }
                let is_awaited = |lost: &Lost| {
                    lost.name.is_some() && lost.name == call.head.connection && covers(lost.limit.as_ref(), &call.head)
                };
                let awaited = client.lost.iter().any(is_awaited);
                if call.stage == Stage::Waiting && !awaited {
                    assert!(!client.links.iter().any(|link| link.takes(&call.head)), "{request} waits for nothing");
                }
            }
            for link in &client.links {
                let held =
                    client.open.iter().filter(|(_, request)| self.calls[request].link() == Some(link.id)).count();
                assert_eq!(held, link.load);
            }
            let names: Vec<_> =
                client.links.iter().filter_map(|link| Some((link.name.as_ref()?, &link.outbox.limit))).collect();
            assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len(), "two connections of one name");
            for (limit, absence) in &client.absences {
                if let Some(expires) = absence.expires {
                    assert!(self.expiries.contains(&(expires, id.clone(), limit.clone())));
                    assert!(!client.has_links_of(limit.as_ref()), "{id} expires while it is connected");
                }
            }
            let expires = client.absences.values().any(|absence| absence.expires.is_some());
            let alive = !client.links.is_empty() || !client.open.is_empty() || self.registry.count_of(id) > 0;
            assert!(alive || expires, "{id} is kept for nothing");
        }
        let expiring = self.clients.values().flat_map(|client| client.absences.values());
        assert_eq!(expiring.filter(|absence| absence.expires.is_some()).count(), self.expiries.len());
        let of_frontends = self.calls.values().filter(|call| call.head.tool.executor == Executor::Frontend);
        assert!(of_frontends.clone().all(|call| matches!(call.stage, Stage::AwaitingApproval | Stage::Shown)));
        assert_eq!(open + of_frontends.count(), self.calls.len());
        let asking = self.calls.values().filter(|call| call.ask.is_some());
        assert!(asking.clone().all(|call| call.stage == Stage::AwaitingApproval), "it is on its way without a yes");
        assert_eq!(asking.count(), self.asks.len());
        let due = |call: &PendingCall| self.deadlines.get(&(call.due?, call.number)).cloned();
        let mut timed = 0;
        for (request, call) in &self.calls {
            timed += usize::from(call.due.is_some());
            assert_eq!(due(call).is_some(), call.due.is_some());
            assert!(due(call).is_none_or(|due| due == *request));
            let is_timed = call.ask.is_some() || call.stage != Stage::AwaitingApproval;
            assert_eq!(call.due.is_some(), is_timed, "{request} is {:?}", call.stage);
        }
        assert_eq!(timed, self.deadlines.len(), "there are deadlines of calls that are over");
    }
}

/// What can happen.
#[derive(Debug, Clone)]
enum Step {
    /// A client registers its tool for all sessions, or somebody who is limited to one does.
    Register {
        client: usize,
        limit: Option<usize>,
    },
    Unregister {
        client: usize,
    },
    PendingCall {
        client: usize,
        session: usize,
        timeout: u64,
        permission: Permission,
        executor: Executor,
        /// The name of the connection that it prefers.
        preferred: Option<usize>,
    },
    /// One of two frontends claims the nth call, or lets go of it.
    Claim {
        nth: usize,
        claimant: usize,
        claim: Claim,
    },
    /// Somebody answers the nth call's ask.
    Reply {
        nth: usize,
        reply: Reply,
    },
    Connect {
        client: usize,
        name: Option<usize>,
        grace: u64,
        session: Option<usize>,
        resume: bool,
    },
    /// A connection says that it will not return, or that it would not have.
    Goodbye {
        client: usize,
        name: usize,
        limit: Option<usize>,
    },
    /// The place in the list of open connections, as far as there are so many.
    Disconnect {
        connection: usize,
    },
    /// A connection takes what there is for it.
    Read {
        connection: usize,
        most: usize,
    },
    /// A client answers the nth call that it was given, as itself or as another.
    Answer {
        nth: usize,
        output: usize,
        as_other: bool,
    },
    Cancel {
        nth: usize,
    },
    GiveUp {
        nth: usize,
    },
    Wait {
        milliseconds: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let client = 0..2usize;
    prop_oneof![
        2 => (client.clone(), limit()).prop_map(|(client, limit)| Step::Register { client, limit }),
        1 => (client.clone(), 0..2usize, limit())
            .prop_map(|(client, name, limit)| Step::Goodbye { client, name, limit }),
        1 => client.clone().prop_map(|client| Step::Unregister { client }),
        6 => (client.clone(), 0..2usize, prop_oneof![Just(50u64), Just(5_000)], permission(), executor(), prop::option::of(0..2usize))
            .prop_map(|(client, session, timeout, permission, executor, preferred)| {
                Step::PendingCall { client, session, timeout, permission, executor, preferred }
            }),
        3 => (0..6usize, 0..2usize, prop_oneof![2 => Just(Claim::Take), 1 => Just(Claim::Release)])
            .prop_map(|(nth, claimant, claim)| Step::Claim { nth, claimant, claim }),
        3 => (0..6usize, prop_oneof![Just(Reply::Once), Just(Reply::Reject)])
            .prop_map(|(nth, reply)| Step::Reply { nth, reply }),
        4 => (client, prop::option::of(0..2usize), prop_oneof![Just(0u64), Just(200)], limit(), any::<bool>())
            .prop_map(|(client, name, grace, session, resume)| Step::Connect { client, name, grace, session, resume }),
        3 => (0..4usize).prop_map(|connection| Step::Disconnect { connection }),
        6 => (0..4usize, 1..4usize).prop_map(|(connection, most)| Step::Read { connection, most }),
        5 => (0..6usize, 0..2usize, prop::bool::weighted(0.1))
            .prop_map(|(nth, output, as_other)| Step::Answer { nth, output, as_other }),
        2 => (0..6usize).prop_map(|nth| Step::Cancel { nth }),
        1 => (0..6usize).prop_map(|nth| Step::GiveUp { nth }),
        2 => prop_oneof![Just(10u64), Just(60), Just(300)].prop_map(|milliseconds| Step::Wait { milliseconds }),
    ]
}

fn limit() -> impl Strategy<Value = Option<usize>> {
    prop::option::weighted(0.3, 0..2usize)
}

fn executor() -> impl Strategy<Value = Executor> {
    prop_oneof![3 => Just(Executor::Client), 1 => Just(Executor::Frontend)]
}

fn permission() -> impl Strategy<Value = Permission> {
    prop_oneof![6 => Just(Permission::Allow), 3 => Just(Permission::Ask), 1 => Just(Permission::Deny)]
}

type Waiter = JoinHandle<Arc<FinishedCall>>;

struct World {
    hub: Hub,
    connections: Vec<Connection>,
    /// Every call ever made, with its waiter.
    calls: Vec<(RequestId, usize, Option<Waiter>)>,
    /// Those of them that frontends run.
    of_frontends: HashSet<RequestId>,
    /// Who has claimed which of those.
    claims: StdHashMap<RequestId, usize>,
    /// Calls that must not be given out: nobody has said yes.
    not_allowed: HashSet<RequestId>,
    /// How each call ended, as everybody was told.
    ended: StdHashMap<RequestId, OutcomeKind>,
    /// Attempts of each call that were given out.
    given: StdHashMap<RequestId, Vec<u32>>,
    last_seen: StdHashMap<ClientId, EventId>,
}

fn client(number: usize) -> ClientId {
    ClientId::parse(&format!("c{number}")).unwrap()
}

fn session(number: usize) -> SessionId {
    SessionId::parse(&format!("s{number}")).unwrap()
}

impl World {
    fn new() -> Self {
        let limits = Limits {
            unconnected_tools: Duration::from_millis(1_000),
            clocks: Clocks { approval_timeout: Duration::from_millis(250), ..Clocks::default() },
            preferred_connection: Duration::from_millis(100),
            ..Limits::default()
        };
        let hub = Hub::new(limits, Clock::counting(), Arc::new(MemoryStore::default()), TaskTracker::new());
        Self {
            hub,
            connections: Vec::new(),
            calls: Vec::new(),
            of_frontends: HashSet::new(),
            claims: StdHashMap::new(),
            not_allowed: HashSet::new(),
            ended: StdHashMap::new(),
            given: StdHashMap::new(),
            last_seen: StdHashMap::new(),
        }
    }

    fn register(&self, number: usize, limit: Option<usize>) {
        let placement = limit.map_or(Placement::Everywhere, |only| Placement::OnlyIn(session(only)));
        self.hub.register(&client(number), &placement, vec![spec()]).unwrap();
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Register { client, limit } => self.register(client, limit),
            Step::Goodbye { client: number, name, limit } => {
                let name = ConnectionName::parse(&format!("n{name}")).unwrap();
                self.hub.say_goodbye(&client(number), &name, limit.map(session).as_ref());
            }
            Step::Unregister { client: number } => _ = self.hub.unregister(&client(number), None, None),
            Step::PendingCall { client: number, session: in_session, timeout, permission, executor, preferred } => {
                let client = client(number);
                let call = NewCall {
                    callee: match executor {
                        Executor::Client => {
                            Callee::Registered { tool: format!("client_c{number}_t"), client: Some(client) }
                        }
                        Executor::Frontend => Callee::Frontend(Arc::new(Tool::of_frontend(client, spec()))),
                    },
                    request: None,
                    session: session(in_session),
                    message: MessageId::parse("").unwrap(),
                    call: CallId::parse("").unwrap(),
                    input: serde_json::value::to_raw_value(&serde_json::json!({})).unwrap(),
                    timeout: Some(Duration::from_millis(timeout)),
                    origin: Origin::Application,
                    permission,
                    connection: preferred.map(|name| ConnectionName::parse(&format!("n{name}")).unwrap()),
                };
                if let Ok(open) = self.hub.open(call).await {
                    let request = open.head().request.clone();
                    if executor == Executor::Frontend {
                        self.of_frontends.insert(request.clone());
                    }
                    if permission != Permission::Allow {
                        self.not_allowed.insert(request.clone());
                    }
                    if permission == Permission::Deny {
                        self.end(&request, OutcomeKind::Denied);
                    }
                    #[expect(clippy::disallowed_methods, reason = "the test awaits it")]
                    let waiter = tokio::spawn(async { open.outcome().await.unwrap() });
                    self.calls.push((request, number, Some(waiter)));
                }
            }
            Step::Reply { nth, reply } => self.reply(nth, reply).await,
            Step::Claim { nth, claimant, claim } => self.claim(nth, claimant, claim),
            Step::Connect { client: number, name, grace, session: only, resume } => {
                let last_seen = self.last_seen.get(&client(number)).filter(|_| resume).cloned();
                let opening = Opening {
                    client: client(number),
                    name: name.map(|name| ConnectionName::parse(&format!("n{name}")).unwrap()),
                    grace: Duration::from_millis(grace),
                    session: only.map(session),
                    last_seen,
                };
                self.connections.push(self.hub.connect(opening).unwrap());
            }
            Step::Disconnect { connection } => {
                if connection < self.connections.len() {
                    self.connections.remove(connection);
                }
            }
            Step::Read { connection, most } => self.read(connection, most),
            Step::Answer { nth, output, as_other } => self.answer(nth, output, as_other).await,
            Step::Cancel { nth } => {
                let Some((request, ..)) = self.calls.get(nth).map(|(request, number, _)| (request.clone(), number))
                else {
                    return;
                };
                match self.hub.cancel(&request, &Actor::Trusted, "no".into()).await {
                    Ok(()) => self.end(&request, OutcomeKind::Cancelled),
                    Err(NotTaken::Over) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            Step::GiveUp { nth } => {
                if let Some((_, _, waiter)) = self.calls.get_mut(nth)
                    && let Some(waiter) = waiter.take()
                {
                    waiter.abort();
                    _ = waiter.await;
                }
            }
            Step::Wait { milliseconds } => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
        }
    }

    /// A call ends once, whoever says so.
    fn end(&mut self, request: &RequestId, kind: OutcomeKind) {
        let before = self.ended.insert(request.clone(), kind);
        assert_eq!(before, None, "{request} ended twice");
    }

    async fn reply(&mut self, nth: usize, reply: Reply) {
        let Some((request, ..)) = self.calls.get(nth) else { return };
        let (request, asks) = (request.clone(), self.hub.asks(None));
        let Some(ask) = asks.iter().find(|ask| ask.call.request == request) else { return };
        self.hub.answer(&ask.id, &Actor::Trusted, Answer { reply, input: None, message: None }).await.unwrap();
        match reply {
            Reply::Reject => self.end(&request, OutcomeKind::Denied),
            Reply::Once | Reply::Always => _ = self.not_allowed.remove(&request),
        }
    }

    fn claim(&mut self, nth: usize, claimant: usize, claim: Claim) {
        let Some((request, ..)) = self.calls.get(nth) else { return };
        let others = self.claims.get(request).is_some_and(|other| *other != claimant);
        let claimant_name = claimant.to_string();
        match self.hub.claim(request, &Actor::Trusted, &claimant_name, claim).now_or_never().unwrap() {
            Ok(()) => {
                assert!(!others && !self.not_allowed.contains(request), "it was another's, or nobody's yet");
                match claim {
                    Claim::Take => _ = self.claims.insert(request.clone(), claimant),
                    Claim::Release => _ = self.claims.remove(request),
                }
            }
            Err(NotTaken::Claimed) => assert!(others),
            Err(NotTaken::NotAllowedYet) => assert!(self.not_allowed.contains(request)),
            Err(NotTaken::Unknown) => assert!(!self.of_frontends.contains(request)),
            Err(NotTaken::Over) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn read(&mut self, connection: usize, most: usize) {
        let Some(connection) = self.connections.get_mut(connection) else { return };
        let mut context = std::task::Context::from_waker(Waker::noop());
        for _ in 0..most {
            match connection.poll_next(&mut context) {
                std::task::Poll::Ready(Delivery::Request { head, attempt, id }) => {
                    assert!(!self.of_frontends.contains(&head.request), "a frontend's call was given to a client");
                    assert!(!self.ended.contains_key(&head.request), "a call that is over was given out");
                    assert!(!self.not_allowed.contains(&head.request), "a call that nobody allowed was given out");
                    let given = self.given.entry(head.request.clone()).or_default();
                    assert!(given.last().is_none_or(|last| *last <= attempt), "attempts go back");
                    given.push(attempt);
                    self.last_seen.insert(connection.client().clone(), id);
                }
                std::task::Poll::Ready(Delivery::Cancel { id, .. }) => {
                    self.last_seen.insert(connection.client().clone(), id);
                }
                std::task::Poll::Ready(Delivery::Superseded | Delivery::GoingAway) | std::task::Poll::Pending => break,
            }
        }
    }

    async fn answer(&mut self, nth: usize, output: usize, as_other: bool) {
        let Some((request, number)) = self.calls.get(nth).map(|(request, number, _)| (request.clone(), *number)) else {
            return;
        };
        let caller = Actor::Client { client: client(if as_other { 1 - number } else { number }), session: None };
        let taken = if self.of_frontends.contains(&request) {
            let (output, claimant) = (serde_json::value::to_raw_value(&output).ok(), output.to_string());
            let ack = Ack { status: AckStatus::Success, output, error_text: None, requested_at: None };
            self.hub.acknowledge(&request, &caller, Some(&claimant), ack).await
        } else {
            let outcome = Outcome::Success(Success { output: output.to_string(), ..Success::default() });
            self.hub.complete(&request, &caller, outcome).await
        };
        match taken {
            Err(NotTaken::Claimed) => assert_ne!(self.claims.get(&request), Some(&output)),
            _ if as_other => assert!(matches!(taken, Err(NotTaken::Forbidden))),
            Ok(Taken::First) => self.end(&request, OutcomeKind::Success),
            Ok(Taken::Again) => assert_eq!(self.ended.get(&request), Some(&OutcomeKind::Success)),
            Err(NotTaken::Conflict) => assert_eq!(self.ended.get(&request), Some(&OutcomeKind::Success)),
            Err(NotTaken::NotAllowedYet) => assert!(self.not_allowed.contains(&request)),
            Err(NotTaken::Over) => assert_ne!(self.ended.get(&request), Some(&OutcomeKind::Success)),
            Err(other) => panic!("{other}"),
        }
    }

    /// Lets everything end, and checks that everybody was told the same and nothing is left.
    async fn finish(mut self) {
        self.connections.clear();
        for number in 0..2 {
            self.hub.unregister(&client(number), None, None);
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(self.hub.counts(), Counts::default());
        let listed = self.hub.calls(&Default::default(), None, None, Most::items(1_000)).await.unwrap().0;
        assert_eq!(listed.len(), self.calls.len());
        assert!(listed.iter().all(|call| call.state == CallState::Done));
        for (request, _, waiter) in self.calls {
            let stored = self.hub.call(&request, Duration::ZERO).await.unwrap().unwrap().finished.unwrap();
            if let Some(said) = self.ended.get(&request) {
                assert_eq!(stored.outcome.kind(), *said);
            }
            if let Some(waiter) = waiter {
                // A late answer may have been added since.
                let told = waiter.await.unwrap();
                assert!(Arc::ptr_eq(&told.head, &stored.head), "the waiter was told another end");
                assert_eq!(told.outcome.kind(), stored.outcome.kind());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_every_call_ends_once_and_nothing_is_left(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            world.register(0, None);
            world.register(1, None);
            for step in steps {
                world.take(step).await;
                world.hub.everywhere(|table| table.assert_consistent()).for_each(drop);
            }
            world.finish().await;
        });
    }
}
