//! The runs of threads: each is started once, and what it tells is kept and given to whoever follows it, however late.
//!
//! A thread is a session. What a run tells are texts of whatever protocol it speaks, numbered from 0. Each is in the store
//! before anybody sees it, so that its number means the same after a restart.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use crate::hub::Hub;
use crate::id::{RunId, SessionId};
use crate::sharded::Sharded;
use crate::store::{RunStore, StoreError, StoreFuture};
use crate::thread_run::{RunUsage, ThreadRun};

/// The runs of threads. A cheap clone of one shared state.
#[derive(Clone)]
pub struct Threads(Arc<Shared>);

struct Shared {
    hub: Hub,
    store: Arc<dyn RunStore>,
    under_way: Sharded<Key, Arc<Log>>,
}

type Key = (SessionId, RunId);

/// What a run has told.
#[derive(Default)]
struct Log {
    told: Mutex<Told>,
    /// Something was told, or the run is over.
    more: Notify,
}

#[derive(Default)]
struct Told {
    events: Vec<Arc<str>>,
    /// How many of them can be seen: those that are kept.
    shown: usize,
    /// Whether it is known that nobody has started the run before.
    is_started: bool,
    is_over: bool,
}

impl Told {
    /// What can be seen, from that number on.
    fn seen(&self, from: usize) -> &[Arc<str>] {
        self.events.get(from..self.shown).unwrap_or_default()
    }
}

/// Why a run is not started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// No such run.
    #[error("there is no run {0} in this thread")]
    Unknown(RunId),
    /// It was started before.
    #[error("run {0} was started already; a run is executed once")]
    Again(RunId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Threads {
    /// Threads whose runs are kept in this store, with this hub's clock.
    pub fn new(hub: Hub, store: Arc<dyn RunStore>) -> Self {
        Self(Arc::new(Shared { hub, store, under_way: Sharded::default() }))
    }

    fn store(&self) -> &dyn RunStore {
        &*self.0.store
    }

    /// What a run that is under way has told.
    fn log(&self, session: &SessionId, run: &RunId) -> Option<Arc<Log>> {
        let key = (session.clone(), run.clone());
        self.0.under_way.of(&key).get(&key).filter(|log| log.lock().is_started).cloned()
    }

    /// Makes a run, which is not started.
    pub async fn create(
        &self,
        session: &SessionId,
        parent: Option<RunId>,
        label: Option<String>,
    ) -> Result<Arc<ThreadRun>, StoreError> {
        let clock = self.0.hub.clock();
        let run = Arc::new(ThreadRun {
            id: clock.run_id(),
            session: session.clone(),
            parent,
            created: clock.time(),
            started: None,
            finished: None,
            label,
            input: None,
            usage: None,
        });
        self.store().save_run(&run).await?;
        Ok(run)
    }

    /// A run of a thread.
    pub async fn run(&self, session: &SessionId, run: &RunId) -> Result<Option<Arc<ThreadRun>>, StoreError> {
        self.store().run(session, run).await
    }

    /// The runs of a thread, in the order in which they were made.
    pub async fn runs(&self, session: &SessionId) -> Result<Vec<Arc<ThreadRun>>, StoreError> {
        self.store().runs(session).await
    }

    /// What a run has told so far.
    pub async fn events(&self, session: &SessionId, run: &RunId) -> Result<Vec<Arc<str>>, StoreError> {
        match self.log(session, run) {
            Some(log) => Ok(log.lock().seen(0).to_vec()),
            None => self.store().run_events(session, run, 0).await,
        }
    }

    /// Starts a run with what the front end sent: nobody else can start it. If it breaks off, these are its last words.
    pub async fn start(
        &self,
        session: &SessionId,
        id: &RunId,
        input: Box<RawValue>,
        last_words: &str,
    ) -> Result<Teller, NotStarted> {
        let key = (session.clone(), id.clone());
        let log = Arc::new(Log::default());
        {
            let mut under_way = self.0.under_way.of(&key);
            if under_way.contains_key(&key) {
                return Err(NotStarted::Again(id.clone()));
            }
            under_way.insert(key.clone(), log.clone());
        }
        let under_way = UnderWay { threads: self.clone(), key, log };
        let stored = self.store().run(session, id).await?.ok_or_else(|| NotStarted::Unknown(id.clone()))?;
        if stored.started.is_some() {
            return Err(NotStarted::Again(id.clone()));
        }
        let started = Some(self.0.hub.clock().time());
        let run = Arc::new(ThreadRun { started, input: Some(input), ..ThreadRun::clone(&stored) });
        self.store().save_run(&run).await?;
        under_way.log.lock().is_started = true;
        Ok(Teller { under_way, run, kept: 0, saving: None, last_words: Some(last_words.into()) })
    }

    /// Follows what a run tells, from that number on; of one that is over and has told no more, its last word.
    pub async fn follow(&self, session: &SessionId, run: &RunId, from: usize) -> Result<RunFollower, StoreError> {
        let log = match self.log(session, run) {
            Some(log) => log,
            None => {
                let events = self.store().run_events(session, run, 0).await?;
                let told = Told { shown: events.len(), events, is_started: true, is_over: true };
                Arc::new(Log { told: Mutex::new(told), more: Notify::new() })
            }
        };
        let next = {
            let told = log.lock();
            from.min(told.shown.saturating_sub(usize::from(told.is_over)))
        };
        Ok(RunFollower { log, next })
    }

    /// Ends the runs that an earlier process has left, each with these last words, unless it has had its own.
    pub async fn recover(&self, last_words: &str, is_last: impl Fn(&str) -> bool) -> Result<usize, StoreError> {
        let left = self.store().unfinished_runs().await?;
        for run in &left {
            let told = self.store().run_events(&run.session, &run.id, 0).await?;
            if !told.last().is_some_and(|last| is_last(last)) {
                self.store().append_run_events(&run.session, &run.id, told.len(), vec![last_words.into()]).await?;
            }
            let finished = Some(self.0.hub.clock().time());
            self.store().save_run(&Arc::new(ThreadRun { finished, ..ThreadRun::clone(run) })).await?;
        }
        Ok(left.len())
    }
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows so many events.
    fn show(&self, shown: usize) {
        let mut told = self.lock();
        told.shown = told.shown.max(shown);
        drop(told);
        self.more.notify_waiters();
    }

    /// Shows everything, and that it is over.
    fn end(&self, last: Vec<Arc<str>>) {
        let mut told = self.lock();
        told.events.extend(last);
        told.shown = told.events.len();
        told.is_over = true;
        drop(told);
        self.more.notify_waiters();
    }
}

/// A run that is under way; when this is dropped it is not any more, and nobody follows it for ever.
struct UnderWay {
    threads: Threads,
    key: Key,
    log: Arc<Log>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.threads.0.under_way.of(&self.key).remove(&self.key);
        self.log.lock().is_over = true;
        self.log.more.notify_waiters();
    }
}

/// Tells what a run tells.
pub struct Teller {
    under_way: UnderWay,
    run: Arc<ThreadRun>,
    /// How many events were given to the store.
    kept: usize,
    /// The last of them, until that has ended.
    saving: Option<(usize, StoreFuture<()>)>,
    /// What is told if it breaks off.
    last_words: Option<Arc<str>>,
}

impl Teller {
    /// The run.
    pub fn run(&self) -> &ThreadRun {
        &self.run
    }

    /// Tells events: they are seen when they are kept, which [`Teller::keep_up`] sees to where it takes its time.
    pub fn tell(&mut self, events: Vec<Arc<str>>) {
        self.under_way.log.lock().events.extend(events);
        self.look_at_save();
        if self.saving.is_none() {
            self.save();
            self.look_at_save();
        }
    }

    /// Notes that a save has ended, if it has.
    fn look_at_save(&mut self) {
        if let Some(saved) = self.saving.as_mut().and_then(|(_, saving)| saving.now_or_never()) {
            self.saved(saved);
        }
    }

    /// Keeps what was told while an earlier save was under way. Ends when everything is kept; safe to drop while it waits.
    pub async fn keep_up(&mut self) {
        while let Some((_, saving)) = &mut self.saving {
            let saved = saving.await;
            let is_saved = saved.is_ok();
            self.saved(saved);
            // What could not be kept is tried again with what comes next.
            if is_saved && self.kept < self.under_way.log.lock().events.len() {
                self.save();
            }
        }
    }

    /// Whether a save is under way.
    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    fn save(&mut self) {
        let events = self.under_way.log.lock().events.get(self.kept..).unwrap_or_default().to_vec();
        let known = self.kept + events.len();
        self.saving = Some((known, self.append(events)));
    }

    fn saved(&mut self, saved: Result<(), StoreError>) {
        let Some((known, _)) = self.saving.take() else { return };
        match saved {
            Ok(()) => self.kept = known,
            Err(error) => unkept(&self.run, &error),
        }
        // What cannot be kept is seen all the same: the run goes on.
        self.under_way.log.show(known);
    }

    fn append(&self, events: Vec<Arc<str>>) -> StoreFuture<()> {
        let store = self.under_way.threads.store();
        store.append_run_events(&self.run.session, &self.run.id, self.kept, events)
    }

    /// Tells the last events of the run; everything is kept before anybody sees them.
    pub async fn finish(mut self, events: Vec<Arc<str>>, usage: RunUsage) {
        self.keep_up().await;
        let (appending, saving) = self.end(&events, Some(usage));
        for saved in [appending.await, saving.await] {
            if let Err(error) = saved {
                unkept(&self.run, &error);
            }
        }
        self.last_words = None;
        self.under_way.log.end(events);
    }

    /// Keeps the end of the run.
    fn end(&self, events: &[Arc<str>], usage: Option<RunUsage>) -> (StoreFuture<()>, StoreFuture<()>) {
        let mut left = self.under_way.log.lock().events.get(self.kept..).unwrap_or_default().to_vec();
        left.extend(events.iter().cloned());
        let finished = Some(self.under_way.threads.0.hub.clock().time());
        let run = Arc::new(ThreadRun { finished, usage, ..ThreadRun::clone(&self.run) });
        (self.append(left), self.under_way.threads.store().save_run(&run))
    }

    /// The run was not begun after all, and can be started again.
    pub async fn withdraw(mut self) -> Result<(), StoreError> {
        self.last_words = None;
        let run = Arc::new(ThreadRun { started: None, input: None, ..ThreadRun::clone(&self.run) });
        self.under_way.threads.store().save_run(&run).await
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        let Some(last_words) = self.last_words.take() else { return };
        // The store keeps the order: this comes after what is being saved.
        let (appending, saving) = self.end(std::slice::from_ref(&last_words), None);
        let run = self.run.clone();
        let keeping = async move {
            for saved in [appending.await, saving.await] {
                if let Err(error) = saved {
                    unkept(&run, &error);
                }
            }
        };
        let hub = &self.under_way.threads.0.hub;
        hub.0.tasks.spawn_on(keeping, &hub.0.runtime);
        self.under_way.log.end(vec![last_words]);
    }
}

/// What a run tells could not be kept, which is for the log: the run goes on.
fn unkept(run: &ThreadRun, error: &StoreError) {
    tracing::error!(run = %run.id, %error, "what a run tells could not be kept");
}

/// Somebody who follows a run.
pub struct RunFollower {
    log: Arc<Log>,
    next: usize,
}

impl RunFollower {
    /// The next event and its number; `None` when the run is over. Safe to drop while it waits.
    pub async fn next(&mut self) -> Option<(usize, Arc<str>)> {
        loop {
            let more = self.log.more.notified();
            tokio::pin!(more);
            // Listens before it looks, so that nothing is missed in between.
            more.as_mut().enable();
            {
                let told = self.log.lock();
                if let Some(event) = told.seen(self.next).first() {
                    self.next += 1;
                    return Some((self.next - 1, event.clone()));
                }
                if told.is_over {
                    return None;
                }
            }
            more.await;
        }
    }
}

#[cfg(test)]
mod tests;
