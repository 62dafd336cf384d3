//! A store that outlives the process, and a process that dies between two writes.
//!
//! [`Kept`] has what is stored. A [`Mortal`] is one process's way to it: after so many writes it is dead, and nothing that
//! it is asked for ever ends. The next process gets another one. It can be full for a while.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use futures_util::FutureExt;
use handback_core::id::{ClientId, MessageId, RequestId, RunId, SessionId, ToolName};
use handback_core::store::{
    Begun, CallFilter, CallPage, CallStore, Ended, FinishedCall, IfFull, JournaledCall, MemoryStore, Message, Most,
    Outcome, Page, RunStore, Session, SessionFilter, SessionPlace, SessionStore, StorageUsed, StoreError, StoreFuture,
    StoredClient, StoredTool, ThreadRun,
};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// How long an answer of a slow store takes at most.
const SLOWEST_ANSWER: Duration = Duration::from_millis(20);

/// What is stored.
#[derive(Default)]
pub struct Kept {
    memory: MemoryStore,
    open: Mutex<Vec<JournaledCall>>,
    clients: Mutex<BTreeMap<ClientId, (StoredClient, Vec<StoredTool>)>>,
}

impl Kept {
    fn open(&self) -> MutexGuard<'_, Vec<JournaledCall>> {
        self.open.lock().unwrap()
    }

    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun> {
        let begun = self.memory.begin(call, if_full);
        if let Some(Ok(Begun::Before(over))) = self.memory.begin(call, if_full).now_or_never() {
            return done(Begun::Before(over));
        }
        let mut open = self.open();
        match open.iter_mut().find(|known| known.head.request == call.head.request) {
            Some(known) => *known = call.clone(),
            None => open.push(call.clone()),
        }
        begun
    }

    fn change(&self, call: &JournaledCall) {
        if let Some(known) = self.open().iter_mut().find(|known| known.head.request == call.head.request) {
            *known = call.clone();
        }
    }

    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended> {
        self.open().retain(|open| open.head.request != call.head.request);
        self.memory.finish(call, if_full)
    }

    fn save_client(&self, client: StoredClient, changes: Vec<(ToolName, Option<StoredTool>)>) {
        let mut clients = self.clients.lock().unwrap();
        let id = client.id.clone();
        let (known, tools) = clients.entry(id.clone()).or_insert_with(|| (client.clone(), Vec::new()));
        *known = client;
        for (name, tool) in changes {
            let place = tools.iter().position(|known| known.name == name);
            match (place, tool) {
                (Some(place), Some(tool)) => tools[place] = tool,
                (Some(place), None) => _ = tools.remove(place),
                (None, tool) => tools.extend(tool),
            }
        }
        if tools.is_empty() {
            clients.remove(&id);
        }
    }
}

/// When a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    /// Never.
    Never,
    /// When it has made so many writes, before it learns that the last one is made.
    At(usize),
    /// When it wants to make one write more than these.
    After(usize),
}

/// One process's way to what is stored.
#[derive(Clone)]
pub struct Mortal(Arc<Life>);

/// A write that waits for room.
type Write = Box<dyn FnOnce() + Send>;

struct Life {
    kept: Arc<Kept>,
    death: Death,
    writes: AtomicUsize,
    is_dead: AtomicBool,
    /// Notified with each write, and when it dies.
    changed: Notify,
    /// The writes that wait for room, in order; `None` while there is room.
    waiting: Mutex<Option<Vec<Write>>>,
    /// When a write is answered, if that takes time: chance, and when the last one was.
    answers: Option<Mutex<(Rng, Instant)>>,
}

impl Mortal {
    /// A process that dies then.
    pub fn new(kept: &Arc<Kept>, death: Death) -> Self {
        Self::with(kept, death, None)
    }

    /// The same, but writes are answered after a while, by chance and in order.
    pub fn slow(kept: &Arc<Kept>, death: Death, random: Rng) -> Self {
        Self::with(kept, death, Some(Mutex::new((random, Instant::now()))))
    }

    fn with(kept: &Arc<Kept>, death: Death, answers: Option<Mutex<(Rng, Instant)>>) -> Self {
        Self(Arc::new(Life {
            kept: kept.clone(),
            death,
            writes: AtomicUsize::new(0),
            is_dead: AtomicBool::new(death == Death::At(0)),
            changed: Notify::new(),
            waiting: Mutex::default(),
            answers,
        }))
    }

    /// How many writes it has made.
    pub fn writes(&self) -> usize {
        self.0.writes.load(Ordering::Acquire)
    }

    /// Waits until it has made so many writes.
    pub async fn until_written(&self, count: usize) {
        self.until(|| self.writes() >= count).await;
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.0.is_dead.load(Ordering::Acquire)
    }

    /// Waits until it is dead.
    pub async fn until_dead(&self) {
        self.until(|| self.is_dead()).await;
    }

    async fn until(&self, is_so: impl Fn() -> bool) {
        loop {
            let changed = self.0.changed.notified();
            if is_so() {
                return;
            }
            changed.await;
        }
    }

    /// Dies now.
    pub fn die(&self) {
        self.0.is_dead.store(true, Ordering::Release);
        self.0.changed.notify_waiters();
    }

    /// From now on there is no room.
    pub fn fill(&self) {
        self.0.waiting.lock().unwrap().get_or_insert_default();
    }

    /// There is room again: what waits is written.
    pub fn make_room(&self) {
        let waiting = self.0.waiting.lock().unwrap().take();
        waiting.into_iter().flatten().for_each(|write| write());
    }

    fn read<T: Send + 'static>(&self, read: impl FnOnce(&Kept) -> StoreFuture<T>) -> StoreFuture<T> {
        if self.is_dead() { never() } else { read(&self.0.kept) }
    }

    /// Writes at once if there is room, and otherwise as the write wants it.
    fn write<T: Send + 'static>(
        &self,
        if_full: IfFull,
        write: impl FnOnce(&Kept) -> StoreFuture<T> + Send + 'static,
    ) -> StoreFuture<T> {
        if let Some(waiting) = self.0.waiting.lock().unwrap().as_mut() {
            if if_full == IfFull::Fails {
                return Box::pin(std::future::ready(Err(StoreError::Full("there is no room".to_owned()))));
            }
            let (tell, written) = oneshot::channel();
            let store = self.clone();
            // It is written even if nobody waits for it any more.
            waiting.push(Box::new(move || _ = tell.send(store.write_now(write))));
            return Box::pin(async { written.await.unwrap_or_else(|_| never()).await });
        }
        self.write_now(write)
    }

    fn write_now<T: Send + 'static>(&self, write: impl FnOnce(&Kept) -> StoreFuture<T>) -> StoreFuture<T> {
        if self.is_dead() {
            return never();
        }
        let before = self.writes();
        if self.0.death == Death::After(before) {
            self.die();
            return never();
        }
        self.0.writes.store(before + 1, Ordering::Release);
        let written = write(&self.0.kept);
        if self.0.death == Death::At(before + 1) {
            self.die();
            return never();
        }
        self.0.changed.notify_waiters();
        let Some(answers) = &self.0.answers else { return written };
        let at = {
            let mut answers = answers.lock().unwrap();
            let (random, last) = &mut *answers;
            *last = (*last).max(Instant::now() + SLOWEST_ANSWER.mul_f64(random.f64()));
            *last
        };
        let store = self.clone();
        Box::pin(async move {
            sleep_until(at).await;
            if store.is_dead() { never().await } else { written.await }
        })
    }
}

fn never<T: Send + 'static>() -> StoreFuture<T> {
    Box::pin(std::future::pending())
}

fn done<T: Send + 'static>(value: T) -> StoreFuture<T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl CallStore for Mortal {
    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun> {
        let call = call.clone();
        self.write(if_full, move |kept| kept.begin(&call, if_full))
    }

    fn change(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<()> {
        let call = call.clone();
        self.write(if_full, move |kept| {
            kept.change(&call);
            done(())
        })
    }

    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>> {
        self.read(|kept| done(kept.open().clone()))
    }

    fn save_client(&self, client: StoredClient, tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()> {
        self.write(IfFull::Fails, |kept| {
            kept.save_client(client, tools);
            done(())
        })
    }

    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>> {
        self.read(|kept| done(kept.clients.lock().unwrap().values().cloned().collect()))
    }

    fn is_lasting(&self) -> bool {
        true
    }

    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended> {
        let call = call.clone();
        self.write(if_full, move |kept| kept.finish(&call, if_full))
    }

    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool> {
        let request = request.clone();
        self.write(IfFull::Fails, move |kept| kept.memory.keep_late(&request, late))
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        self.read(|kept| kept.memory.finished(request))
    }

    fn list_finished(&self, filter: &CallFilter, before: Option<u64>, most: Most) -> StoreFuture<CallPage> {
        self.read(|kept| kept.memory.list_finished(filter, before, most))
    }
}

impl SessionStore for Mortal {
    fn save_session(&self, session: &Arc<Session>, if_full: IfFull) -> StoreFuture<()> {
        let session = session.clone();
        self.write(if_full, move |kept| kept.memory.save_session(&session, if_full))
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        self.read(|kept| kept.memory.session(session))
    }

    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>> {
        self.read(|kept| kept.memory.list_sessions(filter, after, most))
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        self.write_now(|kept| kept.memory.delete_session(session))
    }

    fn save_messages(&self, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()> {
        self.write(if_full, move |kept| kept.memory.save_messages(messages, if_full))
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        self.read(|kept| kept.memory.messages(session))
    }

    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>> {
        self.read(|kept| kept.memory.messages_after(session, after, most))
    }

    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>> {
        self.read(|kept| kept.memory.newest_messages(session, before, most))
    }

    fn replace_from(&self, message: &Arc<Message>) -> StoreFuture<()> {
        self.write_now(|kept| kept.memory.replace_from(message))
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed> {
        self.read(|kept| kept.memory.usage(client))
    }

    fn open_turns(&self) -> StoreFuture<Vec<Arc<Message>>> {
        self.read(|kept| kept.memory.open_turns())
    }
}

impl RunStore for Mortal {
    fn save_run(&self, run: &Arc<ThreadRun>, if_full: IfFull) -> StoreFuture<()> {
        let run = run.clone();
        self.write(if_full, move |kept| kept.memory.save_run(&run, if_full))
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        self.read(|kept| kept.memory.run(session, run))
    }

    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        self.read(|kept| kept.memory.runs(session))
    }

    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()> {
        let (session, run) = (session.clone(), run.clone());
        self.write(IfFull::Waits, move |kept| kept.memory.append_run_events(&session, &run, first, events))
    }

    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>> {
        self.read(|kept| kept.memory.run_events(session, run, from))
    }

    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        self.read(|kept| kept.memory.unfinished_runs())
    }
}
