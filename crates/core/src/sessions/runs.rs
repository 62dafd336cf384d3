//! The runs of threads. Each is started once. Its events are stored, and sent to every follower from the first one on.
//!
//! A thread is a session. Each event of a run is stored before anybody sees it, so that its number means the same after
//! a restart.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::value::RawValue;

use super::Sessions;
use super::playback::Playback;
use crate::calls::Hub;
use crate::events::{CloseFeed, Feed, TurnEvent};
use crate::id::{RunId, SessionId};
use crate::sharded::Sharded;
use crate::store::{
    IfFull, PartBody, Role, RunStore, RunUsage, StoreError, StoreFuture, ThreadRun, ToolState, TurnError,
};

/// The runs of threads. A cheap clone of one shared state.
#[derive(Clone)]
pub struct Runs(Arc<Shared>);

struct Shared {
    hub: Hub,
    store: Arc<dyn RunStore>,
    /// The feeds of runs that are being started or are running.
    under_way: Sharded<Key, UnderWay>,
}

type Key = (SessionId, RunId);

struct UnderWay {
    feed: Feed,
    /// Whether the store has confirmed that nobody started the run before.
    is_started: bool,
}

/// Why a run was not started.
#[derive(Debug, thiserror::Error)]
pub enum NotStarted {
    /// There is no such run.
    #[error("there is no run {0} in this thread")]
    Unknown(RunId),
    /// The run was started before.
    #[error("run {0} was started already; a run is executed once")]
    Again(RunId),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Runs {
    /// Creates the runs of one server, with this store and the hub's clock.
    pub fn new(hub: Hub, store: Arc<dyn RunStore>) -> Self {
        Self(Arc::new(Shared { hub, store, under_way: Sharded::default() }))
    }

    fn store(&self) -> &dyn RunStore {
        &*self.0.store
    }

    /// Creates a run without starting it.
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
        self.store().save_run(&run, IfFull::Fails).await?;
        Ok(run)
    }

    /// Returns a run of a thread.
    pub async fn run(&self, session: &SessionId, run: &RunId) -> Result<Option<Arc<ThreadRun>>, StoreError> {
        self.store().run(session, run).await
    }

    /// The runs of a thread, in the order of creation.
    pub async fn runs(&self, session: &SessionId) -> Result<Vec<Arc<ThreadRun>>, StoreError> {
        self.store().runs(session).await
    }

    /// Returns a run of a thread with its feed, from its first event.
    pub async fn run_with_feed(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<Option<(Arc<ThreadRun>, Feed)>, StoreError> {
        // The feed comes first: the events of a run that is deleted meanwhile are gone, and so is the run.
        let feed = self.feed(session, run).await?;
        Ok(self.run(session, run).await?.map(|run| (run, feed)))
    }

    /// The feed of a run, from its first event.
    async fn feed(&self, session: &SessionId, run: &RunId) -> Result<Feed, StoreError> {
        let key = (session.clone(), run.clone());
        let under_way = self.0.under_way.of(&key).get(&key).filter(|run| run.is_started).map(|run| run.feed.clone());
        if let Some(feed) = under_way {
            return Ok(feed);
        }
        let feed = Feed::default();
        let _closed = feed.closer();
        for row in self.store().run_events(session, run, 0).await? {
            feed.tell(read(&row));
        }
        Ok(feed)
    }

    /// Starts a run with the front end's input. A run can be started once.
    pub async fn start(&self, session: &SessionId, id: &RunId, input: Box<RawValue>) -> Result<Recorder, NotStarted> {
        let key = (session.clone(), id.clone());
        let feed = Feed::default();
        {
            let mut under_way = self.0.under_way.of(&key);
            if under_way.contains_key(&key) {
                return Err(NotStarted::Again(id.clone()));
            }
            under_way.insert(key.clone(), UnderWay { feed: feed.clone(), is_started: false });
        }
        let entry = OpenRun { runs: self.clone(), key };
        let stored = self.store().run(session, id).await?.ok_or_else(|| NotStarted::Unknown(id.clone()))?;
        if stored.started.is_some() {
            return Err(NotStarted::Again(id.clone()));
        }
        // Whoever reads that the run is started finds its feed.
        if let Some(under_way) = self.0.under_way.of(&entry.key).get_mut(&entry.key) {
            under_way.is_started = true;
        }
        let started = Some(self.0.hub.clock().time());
        let run = Arc::new(ThreadRun { started, input: Some(input), ..ThreadRun::clone(&stored) });
        self.store().save_run(&run, IfFull::Fails).await?;
        Ok(Recorder::new(entry, run, feed))
    }

    /// Goes on with the runs that an earlier process left unfinished, and counts them. This comes after
    /// [`Sessions::recover`], and before the turns begin: what they have told until now is told as one snapshot, and what
    /// they tell from then on comes after it.
    pub async fn recover(&self, sessions: &Sessions) -> Result<usize, StoreError> {
        let left = self.store().unfinished_runs().await?;
        for run in &left {
            self.take_up(sessions, run).await?;
        }
        Ok(left.len())
    }

    async fn take_up(&self, sessions: &Sessions, run: &Arc<ThreadRun>) -> Result<(), StoreError> {
        let told = self.store().run_events(&run.session, &run.id, 0).await?;
        let told: Vec<TurnEvent> = told.iter().map(read).collect();
        if told.last().is_some_and(TurnEvent::is_last) {
            let finished = Some(self.0.hub.clock().time());
            let over = ThreadRun { finished, ..ThreadRun::clone(run) };
            return self.store().save_run(&Arc::new(over), IfFull::Fails).await;
        }
        let feeds = sessions.feeds_of_run(&run.session, &run.id);
        let mut playback = Playback::new(sessions, &run.session);
        match sessions.answers_in_run(&run.session, &run.id).await? {
            Some(mut answers) => {
                let begun = answers.pop_if(|last| !last.is_complete()).map(|last| last.id.clone());
                let error = answers.last().and_then(|last| last.error()).cloned();
                playback = playback.after_event(TurnEvent::Restarted { answers, begun }).ending(error);
            }
            // Nobody was told that the run had begun, and it can be started again.
            None if told.is_empty() => {
                let withdrawn = ThreadRun { started: None, input: None, ..ThreadRun::clone(run) };
                return self.store().save_run(&Arc::new(withdrawn), IfFull::Fails).await;
            }
            // An earlier version did not keep which turn was the run's.
            None => {
                let message = "The server was restarted before this run was over".to_owned();
                playback = playback.ending(Some(TurnError::Refused { code: "interrupted".into(), message }));
            }
        }
        playback = feeds.iter().fold(playback, |playback, feed| playback.then(feed, 0)).yielding_asks(true);
        let (hub, recording) = (&self.0.hub, self.recorder_after(run, told).record(playback));
        match feeds.is_empty() {
            // It only says how it ended.
            true => recording.await,
            false => _ = hub.0.tasks.spawn_on(recording, &hub.0.runtime),
        }
        Ok(())
    }

    /// Records a run that an earlier process began, after what it told.
    fn recorder_after(&self, run: &Arc<ThreadRun>, told: Vec<TurnEvent>) -> Recorder {
        let (key, feed) = ((run.session.clone(), run.id.clone()), Feed::default());
        self.0.under_way.of(&key).insert(key.clone(), UnderWay { feed: feed.clone(), is_started: true });
        let entry = OpenRun { runs: self.clone(), key };
        let (kept, mut usage) = (told.len(), Tally::default());
        for event in told {
            usage.add(&event);
            feed.tell(event);
        }
        let mut recorder = Recorder::new(entry, run.clone(), feed);
        (recorder.usage, recorder.kept) = (usage, kept);
        recorder
    }
}

/// An event in stored form.
fn row(event: &TurnEvent) -> Arc<str> {
    // Every event has a JSON form. An empty row would be read as an event of an earlier version.
    serde_json::to_string(event).unwrap_or_default().into()
}

/// Reads a stored event. Earlier versions stored events in the form of their protocol.
fn read(row: &Arc<str>) -> TurnEvent {
    serde_json::from_str(row).unwrap_or_else(|_| TurnEvent::Recorded(row.clone()))
}

/// The entry of a running run. Dropping it removes the entry, and the run is read from the store from then on.
struct OpenRun {
    runs: Runs,
    key: Key,
}

impl Drop for OpenRun {
    fn drop(&mut self) {
        self.runs.0.under_way.of(&self.key).remove(&self.key);
    }
}

/// Stores the events of a run, and then sends them to its followers.
pub struct Recorder {
    /// Kept until the end is stored: nobody reads the run from the store without its end.
    entry: Arc<OpenRun>,
    run: Arc<ThreadRun>,
    feed: Feed,
    /// Closes the feed with the recorder, so that nobody follows it for ever.
    _close: CloseFeed,
    /// How many events are stored.
    kept: usize,
    /// Events that are not stored yet, in stored form.
    unkept: Vec<Arc<str>>,
    /// Events that no follower has seen yet.
    unseen: Vec<TurnEvent>,
    saving: Option<RowsSave>,
    usage: Tally,
    is_over: bool,
}

/// Counts what a run uses. Steps of earlier turns that are told again do not count.
#[derive(Default)]
struct Tally {
    usage: RunUsage,
    is_replayed: bool,
}

impl Tally {
    fn add(&mut self, event: &TurnEvent) {
        if let TurnEvent::StepBegan(message) = event {
            self.is_replayed = message.is_complete();
        }
        if !self.is_replayed {
            self.usage.add(event);
        }
    }
}

struct RowsSave {
    /// How many events it stores.
    rows: usize,
    /// How many of the unseen events can be sent after this save.
    unseen: usize,
    ended: StoreFuture<()>,
}

impl Recorder {
    fn new(entry: OpenRun, run: Arc<ThreadRun>, feed: Feed) -> Self {
        let (entry, _close) = (Arc::new(entry), feed.closer());
        let (unkept, unseen, usage) = (Vec::new(), Vec::new(), Tally::default());
        Self { entry, run, feed, _close, kept: 0, unkept, unseen, saving: None, usage, is_over: false }
    }

    /// The run.
    pub fn run(&self) -> &ThreadRun {
        &self.run
    }

    /// Records all events of a playback, to the end.
    pub async fn record(mut self, mut playback: Playback) {
        loop {
            let event = tokio::select! {
                biased;
                event = playback.next() => event,
                () = self.keep_up(), if self.saving.is_some() => continue,
            };
            let Some(event) = event else { return };
            self.usage.add(&event);
            if event.is_last() {
                return self.finish(event).await;
            }
            self.tell(event);
        }
    }

    /// Takes an event. Followers see it after it is stored.
    fn tell(&mut self, event: TurnEvent) {
        self.unkept.push(row(&event));
        self.unseen.push(event);
        self.look_at_save();
        if self.saving.is_none() {
            self.save();
            self.look_at_save();
        }
    }

    /// Notes that a save has ended, if it has.
    fn look_at_save(&mut self) {
        if let Some(saved) = self.saving.as_mut().and_then(|saving| (&mut saving.ended).now_or_never()) {
            self.saved(saved);
        }
    }

    /// Stores events that came during an earlier save. Ends when everything is stored. Cancel safe.
    async fn keep_up(&mut self) {
        while let Some(saving) = &mut self.saving {
            let saved = (&mut saving.ended).await;
            let is_saved = saved.is_ok();
            self.saved(saved);
            // Events that could not be stored are tried again with the next ones.
            if is_saved && !self.unkept.is_empty() {
                self.save();
            }
        }
    }

    fn save(&mut self) {
        let ended = self.append(self.unkept.clone());
        self.saving = Some(RowsSave { rows: self.unkept.len(), unseen: self.unseen.len(), ended });
    }

    fn saved(&mut self, saved: Result<(), StoreError>) {
        let Some(RowsSave { rows, unseen, .. }) = self.saving.take() else { return };
        match saved {
            Ok(()) => {
                self.kept += rows;
                self.unkept.drain(..rows);
            }
            Err(error) => unkept(&self.run, &error),
        }
        // Events that could not be stored are sent all the same: the run goes on.
        self.unseen.drain(..unseen).for_each(|event| self.feed.tell(event));
    }

    fn append(&self, rows: Vec<Arc<str>>) -> StoreFuture<()> {
        let store = self.entry.runs.store();
        store.append_run_events(&self.run.session, &self.run.id, self.kept, rows)
    }

    /// Ends the run with its last event, after all other events are stored.
    async fn finish(mut self, last: TurnEvent) {
        self.keep_up().await;
        self.is_over = true;
        let ends = self.end(last.clone(), Some(self.usage.usage));
        keep_end(&self.run, ends).await;
        self.unseen.drain(..).for_each(|event| self.feed.tell(event));
        self.feed.tell(last);
    }

    /// Stores the end of the run.
    fn end(&mut self, last: TurnEvent, usage: Option<RunUsage>) -> [StoreFuture<()>; 2] {
        self.unkept.push(row(&last));
        let rows = std::mem::take(&mut self.unkept);
        let finished = Some(self.entry.runs.0.hub.clock().time());
        let run = Arc::new(ThreadRun { finished, usage, ..ThreadRun::clone(&self.run) });
        [self.append(rows), self.entry.runs.store().save_run(&run, IfFull::Waits)]
    }

    /// Takes the start back: the run did not begin, and can be started again.
    pub async fn withdraw(mut self) -> Result<(), StoreError> {
        self.is_over = true;
        let run = Arc::new(ThreadRun { started: None, input: None, ..ThreadRun::clone(&self.run) });
        self.entry.runs.store().save_run(&run, IfFull::Fails).await
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if self.is_over || self.entry.runs.0.hub.is_leaving() {
            return;
        }
        let error = TurnError::Other("The run broke off on the server; see its log".to_owned());
        let last = TurnEvent::Ended(Some(Arc::new(error)));
        // The store keeps the order of writes: this comes after the save in progress.
        let (entry, run, ends) = (self.entry.clone(), self.run.clone(), self.end(last.clone(), None));
        let keeping = async move {
            keep_end(&run, ends).await;
            drop(entry);
        };
        let hub = &self.entry.runs.0.hub;
        hub.0.tasks.spawn_on(keeping, &hub.0.runtime);
        self.unseen.drain(..).chain([last]).for_each(|event| self.feed.tell(event));
    }
}

async fn keep_end(run: &ThreadRun, ends: [StoreFuture<()>; 2]) {
    for saving in ends {
        if let Err(error) = saving.await {
            unkept(run, &error);
        }
    }
}

/// Logs that events could not be stored. The run goes on.
fn unkept(run: &ThreadRun, error: &StoreError) {
    tracing::error!(run = run.id.as_str(), %error, "what a run tells could not be kept");
}

impl RunUsage {
    /// Adds the usage that an event reports.
    fn add(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::StepDone(message) => {
                if let Role::Assistant(said) = &message.role
                    && said.finish.is_some()
                {
                    self.input_tokens = self.input_tokens.saturating_add(said.usage.read());
                    self.output_tokens = self.output_tokens.saturating_add(said.usage.written());
                    self.requests += 1;
                }
            }
            TurnEvent::Part { part, .. } => {
                let begins =
                    matches!(&part.body, PartBody::Tool(tool) if matches!(tool.state, ToolState::Pending { .. }));
                self.tool_calls += u64::from(begins);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
