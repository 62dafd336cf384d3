//! Sessions, calls and their store in a hostile world, by chance and in virtual time: processes die between any two writes
//! or are stopped, the disk is full for a while, the clock jumps, the client comes and goes, and people prompt, allow, reject
//! and stop. Whatever happened, in the end nothing is lost, nothing is done twice, and nothing is left.
//!
//! `SIMULATIONS` says how many schedules are run, and `SIMULATION_SEED` repeats one.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use futures_util::future::join_all;
use handback_core::Hub;
use handback_core::calls::{Actor, Callee, Connection, Delivery, NewCall, NotTaken, Opening, Refusal};
use handback_core::clock::Clock;
use handback_core::id::{CallId, ClientId, MessageId, RequestId, SessionId};
use handback_core::sessions::{NewSession, Prompt, SessionError, Sessions};
use handback_core::store::{
    Answer, CallFilter, CallStore, FinishedCall, Message, Most, Origin, Outcome, Reply, Session, SessionStore,
    TurnError,
};
use handback_core::tools::{Permission, Placement};
use handback_testkit::mortal::{Death, Kept, Mortal};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::process;

/// Schedules, if nothing else is said.
const SCHEDULES: u64 = 1_000;
/// How long a call may take. Some handlers take longer.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long the client may be away.
const GRACE: Duration = Duration::from_secs(10);
/// In a calm world everything is over after that.
const AN_END: Duration = Duration::from_secs(3_600);

/// What a user says, and what is known of it.
struct Said {
    message: MessageId,
    text: &'static str,
    /// It was acknowledged.
    is_taken: Cell<bool>,
    /// Somebody may have stopped its turn.
    may_be_stopped: Cell<bool>,
}

/// A session, and what is said in it.
struct Conversation {
    session: Arc<Session>,
    said: Vec<Said>,
}

/// A call of the application, and how it ended.
struct Direct {
    request: RequestId,
    is_over: Cell<bool>,
    outcome: RefCell<Option<String>>,
}

/// A call at the client.
struct Job {
    /// When its handler is done.
    done: Instant,
    output: String,
    /// Whether the result counted, once it was delivered.
    counted: Option<bool>,
}

/// All that is outside the server, and outlives it.
struct World {
    clock: Clock,
    conversations: Vec<Conversation>,
    calls: Vec<Direct>,
    jobs: RefCell<BTreeMap<RequestId, Job>>,
    /// Nothing bad happens any more.
    is_calm: Cell<bool>,
    began: Instant,
    /// What happened, to compare two runs of a schedule.
    story: RefCell<Vec<String>>,
}

fn desk() -> ClientId {
    ClientId::parse("desk").unwrap()
}

/// A while, up to so many milliseconds.
async fn a_while(random: &mut Rng, most: u64) {
    sleep(Duration::from_millis(random.u64(0..=most))).await;
}

impl World {
    fn tell(&self, what: String) {
        self.story.borrow_mut().push(format!("{} ms: {what}", self.began.elapsed().as_millis()));
    }

    /// Lets everybody do what they do with one process. Ends only with the process.
    async fn meet(&self, sessions: &Sessions, random: &mut Rng) {
        let talks = join_all(self.conversations.iter().map(|it| self.talk(sessions, it, random.fork())));
        let calls = join_all(self.calls.iter().map(|call| self.call(sessions.hub(), call, random.fork())));
        let (working, allowing) = (self.work(sessions.hub(), random.fork()), self.allow(sessions, random.fork()));
        tokio::join!(talks, calls, working, allowing);
    }

    /// The user of a session: says one thing after the other, until each is acknowledged, and sometimes stops it all.
    async fn talk(&self, sessions: &Sessions, conversation: &Conversation, mut random: Rng) {
        let session = &conversation.session;
        for said in conversation.said.iter().filter(|said| !said.is_taken.get()) {
            a_while(&mut random, 3_000).await;
            loop {
                let prompt = Prompt { message: Some(said.message.clone()), ..process::prompt(&self.clock, said.text) };
                let prompted = sessions.prompt(session, prompt).await;
                let refused = prompted.as_ref().err().map(|error| error.to_string()).unwrap_or_default();
                self.tell(format!("{} is said: {refused}", said.message));
                match prompted {
                    Ok(_) | Err(SessionError::DuplicateMessage(_)) => break,
                    Err(SessionError::Store(_) | SessionError::ShuttingDown) => a_while(&mut random, 200).await,
                    Err(error) => panic!("a prompt is refused: {error}"),
                }
            }
            said.is_taken.set(true);
            if random.u8(..) < 16 && !self.is_calm.get() {
                a_while(&mut random, 500).await;
                let taken = conversation.said.iter().filter(|said| said.is_taken.get());
                taken.for_each(|said| said.may_be_stopped.set(true));
                let stopped = sessions.abort(&session.id).await;
                self.tell(format!("{} is stopped: {}", session.id, stopped.is_ok()));
            }
        }
    }

    /// The application: makes a call, and repeats it until it knows how it ended.
    async fn call(&self, hub: &Hub, direct: &Direct, mut random: Rng) {
        if !direct.is_over.get() {
            a_while(&mut random, 5_000).await;
        }
        while !direct.is_over.get() {
            let new = NewCall {
                callee: Callee::Registered { tool: "client_desk_write".to_owned(), client: None },
                request: Some(direct.request.clone()),
                session: SessionId::parse("elsewhere").unwrap(),
                message: MessageId::parse("nothing").unwrap(),
                call: CallId::parse("direct").unwrap(),
                input: serde_json::value::to_raw_value(&serde_json::json!({})).unwrap(),
                timeout: None,
                origin: Origin::Application,
                permission: Permission::Allow,
                connection: None,
            };
            let ended = match hub.open(new).await {
                Ok(open) => open.outcome().await,
                Err(refusal) => Err(refusal),
            };
            match ended {
                Ok(call) => self.learn(direct, &call),
                Err(Refusal::Store(_) | Refusal::ShuttingDown) => a_while(&mut random, 500).await,
                // The client has been away for too long. That is known for sure only if the call was never made.
                Err(Refusal::UnknownTool(_)) => a_while(&mut random, 5_000).await,
                Err(refusal) => panic!("a call is refused: {refusal}"),
            }
        }
    }

    fn learn(&self, direct: &Direct, call: &FinishedCall) {
        let outcome = format!("{:?}", call.outcome);
        self.tell(format!("{} ended: {outcome}", direct.request));
        let before = direct.outcome.replace(Some(outcome.clone()));
        assert!(before.is_none_or(|before| before == outcome), "{}: two outcomes", direct.request);
        direct.is_over.set(true);
    }

    /// The user who is asked: answers sooner or later.
    async fn allow(&self, sessions: &Sessions, mut random: Rng) {
        loop {
            a_while(&mut random, 400).await;
            for ask in sessions.hub().asks(None) {
                if random.bool() {
                    continue;
                }
                let reply = [Reply::Once, Reply::Once, Reply::Always, Reply::Reject][random.usize(..4)];
                self.tell(format!("{} is answered: {reply:?}", ask.call.request));
                // It may be over, and the store may be full. Then it is asked again.
                _ = sessions.answer(&ask.id, &Actor::Trusted, Answer { reply, input: None, message: None }).await;
            }
        }
    }

    /// The client: comes and goes, runs each call once, and delivers its result until somebody takes it.
    async fn work(&self, hub: &Hub, mut random: Rng) {
        loop {
            if !self.is_calm.get() {
                let most = if random.u8(..) < 25 { 40_000 } else { 3_000 };
                a_while(&mut random, most).await;
            }
            let tools = process::tools(TIMEOUT);
            // A store that is full refuses it; what was known of the client is still known.
            _ = hub.register(&desk(), &Placement::Everywhere, tools).unwrap().stored().await;
            let opening = Opening { client: desk(), name: None, grace: GRACE, session: None, last_seen: None };
            let connection = hub.connect(opening).unwrap();
            let stays = Duration::from_millis(random.u64(0..20_000));
            let until = if self.is_calm.get() { AN_END } else { stays };
            // An end without a connection is one, too.
            _ = timeout(until, self.serve(hub, connection, &mut random)).await;
        }
    }

    /// Takes calls and delivers results, as long as the connection lives.
    async fn serve(&self, hub: &Hub, mut connection: Connection, random: &mut Rng) {
        loop {
            let next = self.jobs.borrow().values().filter(|job| job.counted.is_none()).map(|job| job.done).min();
            let next = next.unwrap_or_else(|| Instant::now() + AN_END);
            tokio::select! {
                biased;
                delivery = connection.next() => match delivery {
                    Delivery::Request { head, attempt, .. } => {
                        self.tell(format!("{} {} comes, {attempt}", head.request, head.tool.spec.name));
                        let takes = if random.u8(..) < 16 { 2 * TIMEOUT } else { Duration::from_millis(random.u64(..3_000)) };
                        let output = format!("{} of {}", head.tool.spec.name, head.request);
                        let job = || Job { done: Instant::now() + takes, output, counted: None };
                        // What was delivered and is wanted again is delivered again.
                        self.jobs.borrow_mut().entry(head.request.clone()).or_insert_with(job).counted = None;
                    }
                    Delivery::Cancel { request, .. } => self.tell(format!("{request} is taken back")),
                    Delivery::Superseded | Delivery::GoingAway => return,
                },
                () = sleep_until(next) => {
                    if !self.deliver(hub).await {
                        a_while(random, 200).await;
                    }
                }
            }
        }
    }

    /// Delivers what is done. Says no if it has to be tried again.
    async fn deliver(&self, hub: &Hub) -> bool {
        let is_due = |job: &Job| job.counted.is_none() && job.done <= Instant::now();
        let due =
            self.jobs.borrow().iter().find(|(_, job)| is_due(job)).map(|(id, job)| (id.clone(), job.output.clone()));
        let Some((request, output)) = due else { return true };
        let actor = Actor::Client { client: desk(), session: None };
        let counted = match hub.complete(&request, &actor, process::success(&output)).await {
            Ok(_) => true,
            Err(NotTaken::Over) => false,
            Err(NotTaken::Store(_)) => return false,
            Err(error) => panic!("the result of {request} is refused: {error}"),
        };
        self.tell(format!("{request} is delivered: {counted}"));
        self.jobs.borrow_mut().get_mut(&request).unwrap().counted = Some(counted);
        true
    }

    /// A disk that is full now and then, and a clock that is set.
    async fn weather(&self, store: &Mortal, mut random: Rng) {
        loop {
            a_while(&mut random, 10_000).await;
            if random.u8(..) < 128 {
                store.fill();
                self.tell("the disk is full".to_owned());
                a_while(&mut random, 5_000).await;
                store.make_room();
                self.tell("there is room".to_owned());
            } else if random.u8(..) < 64 {
                self.set_clock(&mut random);
            }
        }
    }

    /// Sets the clock by up to a day.
    fn set_clock(&self, random: &mut Rng) {
        let most = [1_000, 60_000, 86_400_000][random.usize(..3)];
        let by = random.i64(-most..=most);
        self.tell(format!("the clock jumps by {by} ms"));
        self.clock.jump(by);
    }

    /// Whether all is over, as far as those outside know.
    fn is_over(&self, sessions: &Sessions) -> bool {
        let is_said = |it: &Conversation| it.said.iter().all(|said| said.is_taken.get());
        self.conversations.iter().all(|it| is_said(it) && !sessions.is_busy(&it.session.id))
            && self.calls.iter().all(|call| call.is_over.get())
            && self.jobs.borrow().values().all(|job| job.counted.is_some())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("SIMULATION_SEED").is_some() {
            eprintln!("{}", self.story.borrow().join("\n"));
        }
    }
}

/// A world with some sessions in it.
async fn begin(kept: &Arc<Kept>, random: &mut Rng) -> World {
    let clock = Clock::running();
    let sessions = process::start(&Mortal::new(kept, Death::Never), clock.clone());
    let hub = sessions.hub();
    hub.register(&desk(), &Placement::Everywhere, process::tools(TIMEOUT)).unwrap().stored().await.unwrap();
    let mut conversations = Vec::new();
    for _ in 0..random.usize(1..=3) {
        let new = NewSession { client: Some(desk()), ..NewSession::default() };
        let session = sessions.create(new).await.unwrap();
        let texts = ["read", "write", "read+write", "asked", "write+asked read", "read write+write asked"];
        let said = (0..random.usize(1..=3)).map(|_| Said {
            message: clock.message_id(),
            text: texts[random.usize(..texts.len())],
            is_taken: Cell::default(),
            may_be_stopped: Cell::default(),
        });
        conversations.push(Conversation { session, said: said.collect() });
    }
    let calls = (0..random.usize(0..=2)).map(|number| Direct {
        request: RequestId::parse(&format!("direct_{number}")).unwrap(),
        is_over: Cell::default(),
        outcome: RefCell::default(),
    });
    let (jobs, is_calm, story) = (RefCell::default(), Cell::new(false), RefCell::default());
    World { clock, conversations, calls: calls.collect(), jobs, is_calm, began: Instant::now(), story }
}

/// Runs one schedule, and returns what happened.
async fn run(seed: u64) -> Vec<String> {
    let (mut random, kept) = (Rng::with_seed(seed), Arc::new(Kept::default()));
    let world = begin(&kept, &mut random).await;
    for _ in 0..random.usize(0..=5) {
        let writes = random.usize(0..30);
        let death = [Death::Never, Death::At(writes), Death::After(writes)][random.usize(..3)];
        let store = Mortal::slow(&kept, death, random.fork());
        let sessions = process::start(&store, world.clock.of_next_process());
        world.tell(format!("a process starts: {death:?}"));
        let (mut meeting, mut stopping, weather) = (random.fork(), random.fork(), random.fork());
        let living = async {
            process::recover(&sessions).await;
            tokio::join!(world.meet(&sessions, &mut meeting), world.weather(&store, weather));
        };
        let stopped = async {
            a_while(&mut stopping, 20_000).await;
            store.make_room();
            process::stop(&sessions).await;
        };
        tokio::select! {
            biased;
            () = store.until_dead() => world.tell("it is dead".to_owned()),
            () = stopped => world.tell("it has stopped".to_owned()),
            () = living => unreachable!("nobody goes"),
        }
        a_while(&mut random, 20_000).await;
        if random.u8(..) < 50 {
            world.set_clock(&mut random);
        }
    }
    world.is_calm.set(true);
    world.tell("all is calm".to_owned());
    let store = Mortal::slow(&kept, Death::Never, random.fork());
    let sessions = process::start(&store, world.clock.of_next_process());
    process::recover(&sessions).await;
    let over = async {
        while !world.is_over(&sessions) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::select! {
        biased;
        over = timeout(AN_END, over) => over.expect("it does not end"),
        () = world.meet(&sessions, &mut random) => unreachable!("nobody goes"),
    }
    check(&world, &sessions, &store).await;
    world.story.take()
}

/// Looks at what is there in the end.
async fn check(world: &World, sessions: &Sessions, store: &Mortal) {
    let hub = sessions.hub();
    let counts = hub.counts();
    assert_eq!((counts.calls, hub.asks(None).len()), (0, 0), "something is left");
    assert!(store.open_calls().await.unwrap().is_empty(), "a call is left");
    assert!(store.open_turns().await.unwrap().is_empty(), "a turn is left");
    let calls = store.list_finished(&CallFilter::default(), None, Most::items(1_000)).await.unwrap().items;
    let calls: BTreeMap<&RequestId, &FinishedCall> =
        calls.iter().map(|(_, call)| (&call.head.request, &**call)).collect();
    // What the model is told of each call, and whether the turn was stopped before it.
    let mut told: BTreeMap<CallId, (String, bool)> = BTreeMap::new();
    for Conversation { session, said } in &world.conversations {
        let messages = store.messages(&session.id).await.unwrap();
        let ids: BTreeSet<&MessageId> = messages.iter().map(|message| &message.id).collect();
        assert_eq!(ids.len(), messages.len(), "a message is there twice");
        let users = messages.iter().filter(|message| message.answers().is_none()).map(|user| &user.id);
        let expected = said.iter().map(|said| &said.message);
        assert_eq!(users.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "prompts are lost or disordered");
        for said in said {
            let answers: Vec<_> = messages.iter().filter(|it| it.answers() == Some(&said.message)).collect();
            check_turn(said, &answers);
            let parts = answers.iter().flat_map(|answer| process::tools_of(answer));
            told.extend(parts.map(|part| (part.call.clone(), (process::result_of(part), part.is_cut))));
        }
    }
    let mut known = BTreeSet::new();
    for (request, call) in &calls {
        if call.head.origin == Origin::Application {
            continue;
        }
        assert!(known.insert(&call.head.call), "{request}: a call was made twice");
        let told = told.get(&call.head.call);
        if let Outcome::Success(success) = &call.outcome {
            let is_told = told.is_some_and(|(told, is_cut)| *is_cut || told.contains(&success.output));
            assert!(is_told, "{request}: its result is lost: {told:?}");
        }
        assert!(told.is_some() || !world.jobs.borrow().contains_key(*request), "{request} ran, and nobody knows");
    }
    for (request, job) in &*world.jobs.borrow() {
        let call = calls.get(request).unwrap_or_else(|| panic!("{request} ran, and is not known"));
        let is_its = matches!(&call.outcome, Outcome::Success(success) if success.output == job.output);
        assert_eq!(job.counted, Some(is_its), "{request}: {:?}", call.outcome);
        // A result that came too late is kept.
        assert!(is_its || call.late.is_some(), "{request}: what came too late is lost: {call:?}");
    }
    for direct in &world.calls {
        let outcome = calls.get(&direct.request).map(|call| format!("{:?}", call.outcome));
        assert_eq!(*direct.outcome.borrow(), outcome, "{}", direct.request);
    }
}

/// Looks at the answers to a prompt.
fn check_turn(said: &Said, answers: &[&Arc<Message>]) {
    let Said { message, text, .. } = said;
    assert!(answers.iter().all(|answer| answer.is_complete()), "{message}: an answer is not complete");
    let error = answers.iter().find_map(|answer| answer.error());
    if said.may_be_stopped.get() && matches!(error, Some(TurnError::Aborted(_))) {
        return;
    }
    assert!(error.is_none(), "{message}: {error:?}");
    let (last, steps) = answers.split_last().unwrap_or_else(|| panic!("{message} is not answered"));
    let wanted: Vec<usize> = text.split(' ').map(|step| step.split('+').count()).collect();
    let made: Vec<usize> = steps.iter().map(|step| process::tools_of(step).count()).collect();
    assert_eq!(made, wanted, "{message}: \"{text}\" was not done");
    let results: Vec<String> = steps.iter().flat_map(|step| process::tools_of(step)).map(process::result_of).collect();
    assert_eq!(process::text_of(last), results.join(" and "), "{message}: the model was told something else");
}

/// Runs a schedule in a runtime of its own.
fn simulate(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(run(seed))
}

#[test]
fn whatever_happens_nothing_is_lost_or_done_twice() {
    let read = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    if let Some(seed) = read("SIMULATION_SEED") {
        return simulate(seed).iter().for_each(|line| println!("{line}"));
    }
    let count = read("SIMULATIONS").unwrap_or(SCHEDULES);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || {
                for seed in (first..count).step_by(threads as usize) {
                    let ran = catch_unwind(AssertUnwindSafe(|| simulate(seed)));
                    assert!(ran.is_ok(), "SIMULATION_SEED={seed} runs this one again");
                }
            });
        }
    });
}

#[test]
fn a_schedule_runs_again_as_it_ran() {
    for seed in 0..20 {
        assert_eq!(simulate(seed), simulate(seed), "{seed}");
    }
}
