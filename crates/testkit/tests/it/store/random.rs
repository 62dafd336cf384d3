//! Random operations on two stores: whoever asks cannot tell which of them answers.

mod lasting;

use std::collections::BTreeMap;
use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{ClientId, RequestId, RunId, SessionId};
use handback_core::limits::Limits;
use handback_core::store::{
    Begun, CallFilter, CallHead, FinishedCall, IfFull, MemoryStore, Message, Most, Outcome, Part, Role, Session,
    SessionFilter, SessionPlace, Store, ThreadRun,
};
use handback_testkit::store_contract::samples::{
    assistant, begun, calls_of, client_id, ended, head, request_id, run, run_id, seen_call, seen_calls, seen_messages,
    seen_run, seen_runs, seen_session, seen_sessions, session, session_id, text_part, user,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use self::lasting::Lasting;

/// What is done next. There are few of everything, so that steps meet.
#[derive(Debug, Clone)]
enum Step {
    Begin {
        slot: usize,
    },
    Finish {
        slot: usize,
    },
    Finished {
        slot: usize,
    },
    ListFinished {
        client: Option<usize>,
        session: Option<usize>,
        most: usize,
    },
    SaveSession {
        session: usize,
        client: Option<usize>,
        agent: Option<usize>,
        updated: u64,
    },
    Session {
        session: usize,
    },
    ListSessions {
        client: Option<usize>,
        agent: Option<usize>,
        most: usize,
    },
    DeleteSession {
        session: usize,
    },
    SaveMessage {
        session: usize,
        message: usize,
        is_over: bool,
        parts: Vec<usize>,
    },
    Messages {
        session: usize,
    },
    ReplaceFrom {
        session: usize,
        message: usize,
    },
    Usage {
        client: usize,
    },
    OpenTurns,
    SaveRun {
        session: usize,
        run: usize,
        started: bool,
        finished: bool,
    },
    Run {
        session: usize,
        run: usize,
    },
    Runs {
        session: usize,
    },
    Tell {
        session: usize,
        run: usize,
        first: usize,
        count: usize,
    },
    Told {
        session: usize,
        run: usize,
        from: usize,
    },
    UnfinishedRuns,
    /// The store that lasts is closed and opened again.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let (slot, session, client) = (0..6usize, 0..3usize, 0..2usize);
    prop_oneof![
        3 => slot.clone().prop_map(|slot| Step::Begin { slot }),
        3 => slot.clone().prop_map(|slot| Step::Finish { slot }),
        1 => slot.prop_map(|slot| Step::Finished { slot }),
        2 => (option::of(client.clone()), option::of(session.clone()), 0..9usize)
            .prop_map(|(client, session, most)| Step::ListFinished { client, session, most }),
        3 => (session.clone(), option::of(client.clone()), option::of(0..2usize), 0..4u64)
            .prop_map(|(session, client, agent, updated)| Step::SaveSession { session, client, agent, updated }),
        1 => session.clone().prop_map(|session| Step::Session { session }),
        2 => (option::of(client), option::of(0..2usize), 0..4usize)
            .prop_map(|(client, agent, most)| Step::ListSessions { client, agent, most }),
        3 => (session.clone(), 0..2usize, any::<bool>(), any::<bool>())
            .prop_map(|(session, run, started, finished)| Step::SaveRun { session, run, started, finished }),
        1 => (session.clone(), 0..2usize).prop_map(|(session, run)| Step::Run { session, run }),
        1 => session.clone().prop_map(|session| Step::Runs { session }),
        4 => (session.clone(), 0..2usize, 0..6usize, 0..4usize)
            .prop_map(|(session, run, first, count)| Step::Tell { session, run, first, count }),
        2 => (session.clone(), 0..2usize, 0..6usize).prop_map(|(session, run, from)| Step::Told { session, run, from }),
        1 => Just(Step::UnfinishedRuns),
        1 => session.clone().prop_map(|session| Step::DeleteSession { session }),
        6 => (session.clone(), 0..6usize, any::<bool>(), vec(0..8usize, 0..6))
            .prop_map(|(session, message, is_over, parts)| Step::SaveMessage { session, message, is_over, parts }),
        1 => (session.clone(), 0..6usize).prop_map(|(session, message)| Step::ReplaceFrom { session, message }),
        1 => (0..2usize).prop_map(|client| Step::Usage { client }),
        2 => session.prop_map(|session| Step::Messages { session }),
        2 => Just(Step::OpenTurns),
        1 => Just(Step::Restart),
    ]
}

/// What a store is asked: both get the very same values.
enum Question {
    Begin(Arc<CallHead>),
    Finish(Arc<FinishedCall>),
    Finished(RequestId),
    ListFinished(CallFilter, usize),
    SaveSession(Arc<Session>),
    Session(SessionId),
    ListSessions(SessionFilter, usize),
    DeleteSession(SessionId),
    SaveMessage(Arc<Message>),
    Messages(SessionId),
    ReplaceFrom(Arc<Message>),
    Usage(ClientId),
    OpenTurns,
    SaveRun(Arc<ThreadRun>),
    Run(SessionId, RunId),
    Runs(SessionId),
    Tell(SessionId, RunId, usize, Vec<Arc<str>>),
    Told(SessionId, RunId, usize),
    UnfinishedRuns,
}

/// What a store answers, all of it, as text.
async fn answer(store: &dyn Store, question: &Question) -> String {
    match question {
        Question::Begin(call) => match store.begin(&begun(call), IfFull::Fails).await.unwrap() {
            Begun::Before(call) => format!("{:?}", seen_call(&call)),
            other => format!("{other:?}"),
        },
        Question::Finish(call) => format!("{:?}", store.finish(call, IfFull::Fails).await.unwrap()),
        Question::Finished(call) => format!("{:?}", store.finished(call).await.unwrap().as_deref().map(seen_call)),
        // Page by page, to the end.
        Question::ListFinished(filter, most) => {
            let (mut pages, mut before) = (Vec::new(), None);
            loop {
                let page = store.list_finished(filter, before, Most::items(*most)).await.unwrap();
                before = page.items.last().map(|(number, _)| *number).filter(|_| page.has_more);
                pages.push(seen_calls(&calls_of(page)));
                if before.is_none() {
                    break format!("{pages:?}");
                }
            }
        }
        Question::SaveSession(session) => format!("{:?}", store.save_session(session, IfFull::Fails).await.unwrap()),
        Question::Session(id) => format!("{:?}", store.session(id).await.unwrap().as_deref().map(seen_session)),
        Question::ListSessions(filter, most) => {
            let (mut pages, mut after) = (Vec::new(), None);
            loop {
                let page = store.list_sessions(filter, after.as_ref(), Most::items(*most)).await.unwrap();
                after = page.items.last().filter(|_| page.has_more).map(|last| SessionPlace::from(&**last));
                pages.push(seen_sessions(&page.items));
                if after.is_none() {
                    break format!("{pages:?}");
                }
            }
        }
        Question::DeleteSession(id) => format!("{:?}", store.delete_session(id).await.unwrap()),
        Question::SaveMessage(message) => format!("{:?}", store.save_message(message).await.unwrap()),
        Question::Messages(id) => format!("{:?}", seen_messages(&store.messages(id).await.unwrap())),
        Question::ReplaceFrom(message) => format!("{:?}", store.replace_from(message).await.unwrap()),
        // How many bytes something takes is each store's own business.
        Question::Usage(client) => format!("{:?}", store.usage(Some(client)).await.unwrap().client_sessions),
        Question::OpenTurns => {
            let mut left = seen_messages(&store.open_turns().await.unwrap());
            left.sort();
            format!("{left:?}")
        }
        Question::SaveRun(run) => format!("{:?}", store.save_run(run, IfFull::Fails).await.unwrap()),
        Question::Run(session, run) => {
            format!("{:?}", store.run(session, run).await.unwrap().as_deref().map(seen_run))
        }
        Question::Runs(session) => format!("{:?}", seen_runs(&store.runs(session).await.unwrap())),
        // Refused after a gap; the text has the file's name.
        Question::Tell(session, run, first, events) => {
            format!("{:?}", store.append_run_events(session, run, *first, events.clone()).await.is_ok())
        }
        Question::Told(session, run, from) => format!("{:?}", store.run_events(session, run, *from).await.unwrap()),
        Question::UnfinishedRuns => {
            let mut left = seen_runs(&store.unfinished_runs().await.unwrap());
            left.sort();
            format!("{left:?}")
        }
    }
}

/// The two stores, and what the steps so far have made of them.
struct World {
    memory: MemoryStore,
    lasting: Lasting,
    /// How many calls of a slot have ended: each has an id of its own.
    ended: BTreeMap<usize, usize>,
    /// The calls under way, by when they began.
    open: Vec<(usize, Arc<CallHead>)>,
    /// How often something was told: no two events are the same.
    told: usize,
    /// Parts that are saved over and over.
    parts: Vec<Arc<Part>>,
}

impl World {
    fn new(lasting: Lasting) -> Self {
        let generous = Limits {
            stored_calls: 1_000,
            stored_bytes: usize::MAX,
            stored_sessions: 1_000,
            stored_message_bytes: usize::MAX,
            ..Limits::default()
        };
        Self {
            memory: MemoryStore::new(&generous),
            lasting,
            ended: BTreeMap::new(),
            open: Vec::new(),
            told: 0,
            parts: (0..4).map(|number| text_part("prt_1", &format!("text {number}"))).collect(),
        }
    }

    async fn take(&mut self, step: &Step) -> Result<(), TestCaseError> {
        if matches!(step, Step::Restart) {
            return self.restart().await;
        }
        let Some(question) = self.question(step) else { return Ok(()) };
        let expected = answer(&self.memory, &question).await;
        prop_assert_eq!(answer(self.lasting.store(), &question).await, expected, "{:?}", step);
        Ok(())
    }

    /// What a step asks; `None` if it makes no sense now.
    fn question(&mut self, step: &Step) -> Option<Question> {
        Some(match step {
            Step::Begin { slot } => {
                if self.open.iter().any(|(open, _)| open == slot) {
                    return None;
                }
                let head = Arc::new(self.head(*slot));
                self.open.push((*slot, head.clone()));
                Question::Begin(head)
            }
            Step::Finish { slot } => {
                let call = ended(self.head(*slot), Outcome::Error(format!("no {slot}")));
                self.open.retain(|(open, _)| open != slot);
                *self.ended.entry(*slot).or_default() += 1;
                Question::Finish(call)
            }
            Step::Finished { slot } => {
                let ended = self.ended.get(slot).copied().unwrap_or_default();
                Question::Finished(call_id(*slot, ended.saturating_sub(1)))
            }
            Step::ListFinished { client, session, most } => {
                let filter = CallFilter { client: client.map(client_of), session: session.map(session_of) };
                Question::ListFinished(filter, *most)
            }
            Step::SaveSession { session: id, client, agent, updated } => {
                let blank = session(session_of(*id).as_str());
                let SessionFilter { client, agent, .. } = filter_of(*client, *agent);
                Question::SaveSession(Arc::new(Session { client, agent, updated: Time(*updated), ..blank }))
            }
            Step::Session { session } => Question::Session(session_of(*session)),
            Step::ListSessions { client, agent, most } => Question::ListSessions(filter_of(*client, *agent), *most),
            Step::DeleteSession { session } => Question::DeleteSession(session_of(*session)),
            Step::SaveMessage { session, message, is_over, parts } => {
                let parts = parts.iter().map(|number| self.part(*number)).collect();
                Question::SaveMessage(Arc::new(Message { parts, ..message_of(*session, *message, *is_over) }))
            }
            Step::Messages { session } => Question::Messages(session_of(*session)),
            Step::ReplaceFrom { session, message } => {
                Question::ReplaceFrom(Arc::new(message_of(*session, *message, false)))
            }
            Step::Usage { client } => Question::Usage(client_of(*client)),
            Step::OpenTurns => Question::OpenTurns,
            Step::SaveRun { session, run: id, started, finished } => {
                let blank = run(session_of(*session).as_str(), run_of(*id).as_str());
                let (started, finished) = (started.then_some(Time(1)), finished.then_some(Time(2)));
                Question::SaveRun(Arc::new(ThreadRun { started, finished, ..blank }))
            }
            Step::Run { session, run } => Question::Run(session_of(*session), run_of(*run)),
            Step::Runs { session } => Question::Runs(session_of(*session)),
            Step::Tell { session, run, first, count } => {
                self.told += 1;
                let events = (0..*count).map(|number| format!("{}.{number}", self.told).into()).collect();
                Question::Tell(session_of(*session), run_of(*run), *first, events)
            }
            Step::Told { session, run, from } => Question::Told(session_of(*session), run_of(*run), *from),
            Step::UnfinishedRuns => Question::UnfinishedRuns,
            Step::Restart => return None,
        })
    }

    /// What is under way in the store that lasts is under way afterwards.
    async fn restart(&mut self) -> Result<(), TestCaseError> {
        self.lasting.restart().await;
        let open: Vec<RequestId> = self.open.iter().map(|(_, head)| head.request.clone()).collect();
        let left = self.lasting.store().open_calls().await.unwrap();
        prop_assert_eq!(left.iter().map(|call| call.head.request.clone()).collect::<Vec<_>>(), open);
        Ok(())
    }

    /// What was counted all along is what counting it again gives.
    async fn check_counts(&mut self) -> Result<(), TestCaseError> {
        // It is written after everything before it.
        assert!(!self.lasting.store().delete_session(&SessionId::parse("none").unwrap()).await.unwrap());
        let again = self.lasting.counted_again();
        for (client, sessions, bytes) in &again {
            let usage = self.lasting.store().usage(ClientId::parse(client).ok().as_ref()).await.unwrap();
            let counted = match client.is_empty() {
                true => (*sessions, usage.bytes.cast_signed()),
                false => (usage.client_sessions.cast_signed(), usage.client_bytes.cast_signed()),
            };
            prop_assert_eq!(counted, (*sessions, *bytes), "{}", client);
        }
        // The same after a restart, when it is added up anew.
        self.restart().await?;
        prop_assert_eq!(self.lasting.counted(), again);
        Ok(())
    }

    fn head(&self, slot: usize) -> CallHead {
        let ended = self.ended.get(&slot).copied().unwrap_or_default();
        head(call_id(slot, ended).as_str(), client_of(slot % 2).as_str(), session_of(slot % 3).as_str())
    }

    /// Half of the parts are the same ones each time, the other half only look the same.
    fn part(&self, number: usize) -> Arc<Part> {
        let known = &self.parts[number % self.parts.len()];
        if number < self.parts.len() { known.clone() } else { Arc::new(Part::clone(known)) }
    }
}

fn call_id(slot: usize, ended: usize) -> RequestId {
    request_id(&format!("call {slot}.{ended}"))
}

fn client_of(number: usize) -> ClientId {
    client_id(&format!("client-{number}"))
}

fn session_of(number: usize) -> SessionId {
    session_id(&format!("ses_{number}"))
}

fn run_of(number: usize) -> RunId {
    run_id(&format!("run_{number}"))
}

fn filter_of(client: Option<usize>, agent: Option<usize>) -> SessionFilter {
    SessionFilter {
        client: client.map(client_of),
        agent: agent.map(|number| format!("agent-{number}").into()),
        parent: None,
    }
}

/// Even messages are a user's, odd ones answer the one before; in no order of saving.
fn message_of(session: usize, message: usize, is_over: bool) -> Message {
    let (session, id) = (session_of(session), format!("msg_{message}"));
    let mut made = match message % 2 {
        0 => user(session.as_str(), &id),
        _ => assistant(session.as_str(), &id, &format!("msg_{}", message - 1)),
    };
    match &mut made.role {
        Role::User(user) => user.turn = user.turn.take().filter(|_| !is_over),
        Role::Assistant(assistant) => assistant.completed = is_over.then_some(Time(9)),
    }
    made
}

/// Takes these steps in both stores.
fn must_answer_alike<Open: Future<Output = Lasting>>(
    open: impl FnOnce() -> Open,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { compare(World::new(open().await), steps).await })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn the_store_in_a_file_answers_as_the_one_in_memory(steps in vec(step(), 1..80)) {
        must_answer_alike(async || Lasting::in_file(), &steps)?;
    }
}

proptest! {
    // Each case has a database of its own, which takes its time.
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_store_in_postgres_answers_as_the_one_in_memory(steps in vec(step(), 1..120)) {
        must_answer_alike(Lasting::in_postgres, &steps)?;
    }
}

async fn compare(mut world: World, steps: &[Step]) -> Result<(), TestCaseError> {
    for step in steps {
        world.take(step).await?;
    }
    // Whatever was asked on the way, in the end all of it is compared, as it was and after a restart.
    for _ in 0..2 {
        world.take(&Step::ListFinished { client: None, session: None, most: 1_000 }).await?;
        world.take(&Step::ListSessions { client: None, agent: None, most: 1_000 }).await?;
        world.take(&Step::Usage { client: 0 }).await?;
        world.check_counts().await?;
        world.take(&Step::OpenTurns).await?;
        world.take(&Step::UnfinishedRuns).await?;
        for session in 0..3 {
            world.take(&Step::Messages { session }).await?;
            world.take(&Step::Runs { session }).await?;
            for run in 0..2 {
                world.take(&Step::Told { session, run, from: 0 }).await?;
            }
        }
        world.take(&Step::Restart).await?;
    }
    Ok(())
}
