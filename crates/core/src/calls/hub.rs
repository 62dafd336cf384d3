//! The handle to clients, tools and calls: a cheap clone of one shared state.

mod listing;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::aside::Aside;
use crate::calls::metrics::Metrics;
use crate::calls::shards::{Common, Left, Lifecycle, Shards, shard_of};
use crate::calls::table::{ClientInfo, Ending, Table, ToolChange};
use crate::calls::trail;
use crate::clock::Clock;
use crate::events::{Event, SessionEvent, Subscription, Topic, Topics};
use crate::id::{ClientId, RequestId, SessionId, ToolId};
use crate::limits::Limits;
use crate::schema::Schemas;
use crate::store::{
    CallHead, CallState, CallStore, Cancellation, Ended, FinishedCall, IfFull, Origin, Outcome, Phases, Session,
    StoreError, StoredClient, StoredTool, Tool, ToolSpec,
};

pub use self::listing::{CallCursor, CallPlace};
use crate::tools::{Placement, RegisterError, Registered};
use crate::until::until;

/// After which time an offer is journaled again that could not be journaled.
const JOURNALED_AGAIN: Duration = Duration::from_secs(1);
/// How many calls are ended and journaled at a time when the server stops.
const ENDED_AT_ONCE: usize = 256;
/// How long housekeeping sleeps at most, and how often it forgets idle rate counters.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// The clients, tools and calls of one server.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) shards: Shards,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    pub(crate) store: Arc<dyn CallStore>,
    pub(crate) schemas: Schemas,
    aside: Aside,
    pub(crate) epoch: Arc<str>,
    /// Journal writes that nobody awaits.
    pub(crate) tasks: TaskTracker,
    /// The runtime of those writes, because values may be dropped outside of any runtime.
    pub(crate) runtime: Handle,
    topics: Arc<Topics>,
}

/// Tools that were registered or unregistered. The change is in effect, and is being stored.
pub struct Registration {
    hub: Hub,
    client: ClientId,
    change: ToolChange,
}

impl Registration {
    /// The tools.
    pub fn ids(&self) -> &[ToolId] {
        &self.change.ids
    }

    /// Waits until the change is stored, and returns the tools. If it cannot be stored, it is undone.
    pub async fn stored(self) -> Result<Vec<ToolId>, StoreError> {
        let Self { hub, client, change: ToolChange { ids, before, saving } } = self;
        if let Some(saving) = saving
            && let Err(error) = saving.await
        {
            hub.of_client(&client, |table| table.undo_tools(&client, before));
            return Err(error);
        }
        Ok(ids)
    }
}

/// Counts of everything in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Known clients.
    pub clients: usize,
    /// Open connections.
    pub connections: usize,
    /// Registered tools.
    pub tools: usize,
    /// Open calls.
    pub calls: usize,
}

/// A call, open or over.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CallInfo {
    /// The call as it was made.
    pub head: Arc<CallHead>,
    /// The state of the call.
    pub state: CallState,
    /// The number of the current offer, from 1.
    pub attempt: u32,
    /// How long the call took in each phase so far.
    pub phases: Phases,
    /// The finished call, once it is over.
    pub finished: Option<Arc<FinishedCall>>,
}

impl From<Arc<FinishedCall>> for CallInfo {
    fn from(call: Arc<FinishedCall>) -> Self {
        Self {
            head: call.head.clone(),
            state: CallState::Done,
            attempt: call.attempt,
            phases: call.phases,
            finished: Some(call),
        }
    }
}

impl Hub {
    /// Creates an empty hub. Its housekeeping runs on `tasks` until the hub is closed. Needs a runtime.
    pub fn new(limits: Limits, clock: Clock, store: Arc<dyn CallStore>, tasks: TaskTracker) -> Self {
        let limits = Arc::new(limits);
        let (topics, aside) = (Arc::new(Topics::new(&limits)), Aside::default());
        let hub = Self(Arc::new(Shared {
            shards: Shards::new(Arc::new(Common::new(limits.clone(), topics.clone(), store.clone()))),
            epoch: clock.epoch(),
            limits,
            clock,
            store,
            schemas: Schemas::new(aside.clone()),
            aside,
            tasks,
            runtime: Handle::current(),
            topics,
        }));
        hub.0.tasks.spawn(housekeeping(hub.clone()));
        hub
    }

    /// Acts on the shard of a client.
    pub(crate) fn of_client<R>(&self, client: &ClientId, act: impl FnOnce(&mut Table) -> R) -> R {
        self.storing(self.0.shards.of_client(client, act))
    }

    /// Acts on the shard of a call. An unknown id leads to some shard, which does not have it.
    pub(crate) fn of_call<R>(&self, request: &RequestId, act: impl FnOnce(&mut Table) -> R) -> R {
        self.storing(self.0.shards.of_call(request, act))
    }

    /// Acts on the shard of a call that somebody answers or claims. If its time is over, it ends first, even if housekeeping
    /// has not looked yet.
    pub(crate) fn of_call_in_time<R>(&self, request: &RequestId, act: impl FnOnce(&mut Table) -> R) -> R {
        let end_and_act = |table: &mut Table| (table.end_if_overdue(request, Instant::now()), act(table));
        let (overdue, result) = self.of_call(request, end_and_act);
        if let Some(ending) = overdue {
            self.journal_in_background(ending);
        }
        result
    }

    /// Acts on every shard, one after the other.
    pub(crate) fn everywhere<R>(&self, act: impl FnMut(&mut Table) -> R) -> impl Iterator<Item = R> {
        self.0.shards.each(act).map(|acted| self.storing(acted))
    }

    /// Stores what a change of the table has led to. An offer is written to its connection after that.
    fn storing<R>(&self, (result, Left { notes, writes }): (R, Left)) -> R {
        for writing in writes {
            let storing = async {
                if let Err(error) = writing.await {
                    tracing::error!(%error, "a change of a client's tools could not be stored");
                }
            };
            self.0.tasks.spawn_on(storing, &self.0.runtime);
        }
        for note in notes {
            let (hub, writing) = (self.clone(), self.0.store.change(&note, IfFull::Waits));
            let noting = async move {
                let offered = match writing.await {
                    Ok(_) => note.offered,
                    Err(error) => {
                        tracing::error!(call = note.head.request.as_str(), %error, "an offer could not be journaled, and waits");
                        tokio::time::sleep(JOURNALED_AGAIN).await;
                        0
                    }
                };
                hub.of_client(note.head.client(), |table| table.noted(&note.head.request, offered, Instant::now()));
            };
            self.0.tasks.spawn_on(noting, &self.0.runtime);
        }
        result
    }

    /// A new id for a call of a client.
    pub(crate) fn request_id(&self, client: &ClientId) -> RequestId {
        self.0.clock.request_id(shard_of(client))
    }

    /// Runs work to its end, even if the caller goes away meanwhile.
    pub(crate) async fn run_to_end<T, E>(
        &self,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let task = self.0.tasks.spawn_on(work.in_current_span(), &self.0.runtime);
        task.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string()).into()))
    }

    /// Notifies the shutdown, which waits for the last call, that a call has ended.
    pub(crate) fn changed_if_draining(&self) {
        if !self.is_serving() {
            self.0.shards.common().changed.notify_waiters();
        }
    }

    /// The bounds.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    /// Wall time and new ids.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Counters since the start.
    pub fn metrics(&self) -> Metrics {
        let mut metrics = Metrics::default();
        self.everywhere(|table| metrics.add(&table.metrics)).for_each(drop);
        metrics
    }

    /// The thread pool for work that takes long.
    pub fn aside(&self) -> &Aside {
        &self.0.aside
    }

    /// Compiled schemas, shared between tools.
    pub fn schemas(&self) -> &Schemas {
        &self.0.schemas
    }

    /// Sends an event of a session to its listeners.
    pub(crate) fn tell(&self, session: &Arc<Session>, event: impl FnOnce() -> SessionEvent) {
        if self.is_watched(session) {
            self.0.topics.emit(Event::Session(session.clone(), event()));
        }
    }

    /// Sends an event to its listeners.
    pub(crate) fn emit(&self, event: Event) {
        if self.0.topics.have_listeners() {
            self.0.topics.emit(event);
        }
    }

    /// Waits until the listeners of a session have handled all its events so far. A listener that does not read blocks
    /// this, so callers must bound the wait.
    pub async fn heard(&self, session: &Arc<Session>) {
        let heard = CancellationToken::new();
        let mark = Arc::new(heard.clone().drop_guard());
        self.tell(session, move || SessionEvent::Mark(mark));
        heard.cancelled().await;
    }

    /// Whether anybody listens to a session.
    pub(crate) fn is_watched(&self, session: &Session) -> bool {
        self.0.topics.are_watched(Some(&session.id), session.client.as_ref())
    }

    /// Opens the calls again that an earlier process left open, and counts them. Their clients are away.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        let now = Instant::now();
        for (client, tools) in self.0.store.clients().await? {
            self.restore(&client, tools, now).await;
        }
        let left = self.0.store.open_calls().await?;
        let count = left.len();
        for mut call in left {
            if let Some(tool) = self.tool(call.head.tool.id.as_str()).filter(|tool| tool.client == *call.head.client())
            {
                call.head = Arc::new(CallHead { tool, ..CallHead::clone(&call.head) });
            }
            let (head, denied) = (call.head.clone(), call.denied.clone());
            if self.0.shards.take(&head.request, head.client()) {
                let number = self.of_client(head.client(), |table| table.reopen(call, &self.0.clock, now));
                self.0.shards.entered(&head.request, head.client(), number);
                trail::reopened(&head);
            }
            if let Some(reason) = denied
                && let Some(ending) = self.end(&head, Outcome::Denied(reason.into()))
            {
                self.journal_or_log(ending).await;
            }
        }
        Ok(count)
    }

    /// Registers the tools of a client that an earlier process knew.
    async fn restore(&self, client: &StoredClient, tools: Vec<StoredTool>, now: Instant) {
        let mut limits = BTreeSet::new();
        for StoredTool { name, description, schema, timeout, effect, version, scope } in tools {
            let schema = match self.schemas().compile(Some(&schema), self.limits()).await {
                Ok(schema) => schema,
                Err(error) => {
                    tracing::warn!(
                        client = client.id.as_str(),
                        tool = name.as_str(),
                        error = error.to_string(),
                        "a stored tool is no longer allowed"
                    );
                    continue;
                }
            };
            if scope.everywhere || !scope.sessions.is_empty() {
                limits.insert(None);
            }
            limits.extend(scope.limited.iter().cloned().map(Some));
            let spec = ToolSpec { name, description, schema, timeout, effect, version };
            let tool = Arc::new(Tool::of_client(client.id.clone(), spec));
            self.of_client(&client.id, |table| table.restore_tool(&client.id, Registered { tool, scope }));
        }
        let limits: Vec<Option<SessionId>> = limits.into_iter().collect();
        self.of_client(&client.id, |table| table.restore_client(client, &limits, now));
    }

    /// Cancels the models' calls that meet a condition: no turn waits for them.
    pub(crate) async fn cancel_where(&self, is_it: impl Fn(&CallHead) -> bool) {
        let is_orphan = |head: &CallHead| head.origin == Origin::Model && is_it(head);
        let heads = |table: &mut Table| {
            table.calls.values().map(|call| call.head.clone()).filter(|head| is_orphan(head)).collect::<Vec<_>>()
        };
        let orphans: Vec<Arc<CallHead>> = self.everywhere(heads).flatten().collect();
        for head in orphans {
            if let Some(ending) = self.end(&head, Outcome::Cancelled(Cancellation::TurnStopped)) {
                self.journal_or_log(ending).await;
            }
        }
    }

    /// Subscribes to the events of a topic, from now on.
    pub fn subscribe(&self, topic: Topic) -> Subscription {
        self.0.topics.subscribe(topic)
    }

    /// Registers all the tools or none.
    pub fn register(
        &self,
        client: &ClientId,
        placement: &Placement,
        specs: Vec<ToolSpec>,
    ) -> Result<Registration, RegisterError> {
        let wall = self.0.clock.now();
        let register = |table: &mut Table| table.register(client, placement, specs, Instant::now(), wall);
        let change = self.of_client(client, register)?;
        trail::registered(client, change.ids.len());
        Ok(Registration { hub: self.clone(), client: client.clone(), change })
    }

    /// Unregisters tools by name or full id, or all of the client's when `which` is `None`. Open calls go on.
    pub fn unregister(&self, client: &ClientId, session: Option<&SessionId>, which: Option<&[String]>) -> Registration {
        let change = self.of_client(client, |table| table.unregister(client, session, which));
        trail::unregistered(client, change.ids.len());
        Registration { hub: self.clone(), client: client.clone(), change }
    }

    /// Removes the tools that were registered only for a deleted session.
    pub(crate) fn forget_session(&self, session: &SessionId) {
        if self.0.shards.common().owners.have_sessions() {
            self.everywhere(|table| table.forget_session(session)).for_each(drop);
        }
    }

    /// A client's tools in order of registration; with a session, only those offered there.
    pub fn tools_of(&self, client: &ClientId, session: Option<&SessionId>) -> Vec<Arc<Tool>> {
        self.of_client(client, |table| table.registry.of_client(client, session))
    }

    /// The tools of any client that were registered specifically for this session, sorted by id.
    pub fn tools_for_session(&self, session: &SessionId) -> Vec<Arc<Tool>> {
        match self.0.shards.common().owners.have_sessions() {
            true => sorted(self.everywhere(|table| table.registry.of_session(session))),
            false => Vec::new(),
        }
    }

    /// All tools, sorted by id.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        sorted(self.everywhere(|table| table.registry.all()))
    }

    /// Returns a tool, whichever client has it.
    pub(crate) fn tool(&self, id: &str) -> Option<Arc<Tool>> {
        let owner = self.0.shards.common().owners.owner(id)?;
        self.of_client(&owner, |table| table.registry.find(id).cloned())
    }

    /// All clients, sorted by id.
    pub fn clients(&self) -> Vec<ClientInfo> {
        let mut clients: Vec<ClientInfo> = self.everywhere(|table| table.clients()).flatten().collect();
        clients.sort_by(|one, other| one.id.cmp(&other.id));
        clients
    }

    /// A client, as seen by somebody limited to that session, or without a limit.
    pub fn client(&self, id: &ClientId, limit: Option<&SessionId>) -> Option<ClientInfo> {
        self.of_client(id, |table| table.client(id, limit))
    }

    /// Counts of everything in the table.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let count = |table: &mut Table| {
            let (clients, connections) = table.count();
            counts.clients += clients;
            counts.connections += connections;
            counts.tools += table.registry.count();
            counts.calls += table.calls.len();
        };
        self.everywhere(count).for_each(drop);
        counts
    }

    /// Returns a call. Waits until it is over, for at most `wait`.
    pub async fn call(&self, request: &RequestId, wait: Duration) -> Result<Option<CallInfo>, StoreError> {
        let over = self.of_call(request, |table| {
            let call = table.calls.get_mut(request).filter(|_| !wait.is_zero())?;
            let (waiter, over) = oneshot::channel();
            call.waiters.add(waiter);
            Some(over)
        });
        if let Some(over) = over
            && let Ok(Ok(finished)) = tokio::time::timeout(wait, over).await
        {
            return Ok(Some(finished.into()));
        }
        if let Some(call) = self.of_call(request, |table| table.calls.get(request).map(call_info)) {
            return Ok(Some(call));
        }
        if let Some(ended) = self.unjournaled(request) {
            // An outcome is told when it is journaled. The journal stores it once.
            return match self.0.store.finish(&ended, IfFull::Fails).await {
                Ok(Ended::Before(before)) => Ok(Some(before.into())),
                Ok(Ended::First | Ended::Gone) => Ok(Some(ended.into())),
                // Until then the call is as it was, for whoever does not wait for the outcome.
                Err(error) if error.is_passing() && wait.is_zero() => {
                    let state = if ended.may_have_run { CallState::Offered } else { CallState::Queued };
                    Ok(Some(CallInfo { state, finished: None, ..ended.into() }))
                }
                Err(error) => Err(error),
            };
        }
        Ok(self.finished(request).await?.map(CallInfo::from))
    }

    /// A call that is over and not journaled yet.
    pub(crate) fn unjournaled(&self, request: &RequestId) -> Option<Arc<FinishedCall>> {
        self.of_call(request, |table| table.finished.get(request, Instant::now())?.unjournaled.clone())
    }

    /// Whether the tool of a call may have run. It may, if the table does not know the call.
    pub(crate) fn may_have_run(&self, request: &RequestId) -> bool {
        self.of_call(request, |table| match table.calls.get(request) {
            Some(call) => call.may_have_run,
            None => table.finished.get(request, Instant::now()).is_none_or(|over| over.may_have_run),
        })
    }

    /// A finished call, if the journal still has it.
    pub(crate) async fn finished(&self, request: &RequestId) -> Result<Option<Arc<FinishedCall>>, StoreError> {
        self.0.store.finished(request).await
    }

    /// Refuses new calls from now on.
    pub fn start_draining(&self) {
        self.0.shards.enter(Lifecycle::Draining);
    }

    /// Whether new calls are accepted.
    pub fn is_serving(&self) -> bool {
        self.0.shards.common().lifecycle() == Lifecycle::Serving
    }

    /// Whether what is open is left to the next process.
    pub fn is_leaving(&self) -> bool {
        self.0.shards.common().is_leaving()
    }

    /// Leaves what is open to the next process, if the store lasts. Whoever waits for a call is told so.
    pub(crate) fn leave(&self) {
        if self.0.store.is_lasting() {
            self.0.shards.enter(Lifecycle::Leaving);
            self.everywhere(Table::dismiss_waiters).for_each(drop);
        }
    }

    /// Refuses new calls, lets open ones finish for a while, ends the others or leaves them to the next process, and
    /// tells all connections to close.
    pub async fn close(&self, patience: Duration) {
        self.start_draining();
        let is_idle = || self.everywhere(|table| table.calls.is_empty()).all(|is_idle| is_idle).then_some(());
        let idle = until(&self.0.shards.common().changed, is_idle);
        // A timeout is no error: the remaining calls are ended or left next.
        _ = tokio::time::timeout(patience, idle).await;
        self.leave();
        if !self.is_leaving() {
            self.end_all().await;
        }
        self.0.shards.enter(Lifecycle::Closed);
        self.everywhere(Table::wake_connections).for_each(drop);
        self.0.shards.common().changed.notify_waiters();
    }

    async fn end_all(&self) {
        let heads = |table: &mut Table| table.calls.values().map(|call| call.head.clone()).collect();
        let left: Vec<Vec<Arc<CallHead>>> = self.everywhere(heads).collect();
        let end = async |head: Arc<CallHead>| {
            if let Some(ending) = self.end(&head, Outcome::Cancelled(Cancellation::ShuttingDown)) {
                self.journal_or_log(ending).await;
            }
        };
        stream::iter(left.into_iter().flatten()).for_each_concurrent(ENDED_AT_ONCE, end).await;
    }

    /// Ends a call if it is still open. The caller must journal the ending.
    pub(crate) fn end(&self, head: &CallHead, outcome: Outcome) -> Option<Ending> {
        self.of_client(head.client(), |table| table.finish(&head.request, outcome, None, Instant::now()))
    }
}

fn sorted(tools: impl Iterator<Item = Vec<Arc<Tool>>>) -> Vec<Arc<Tool>> {
    let mut tools: Vec<Arc<Tool>> = tools.flatten().collect();
    tools.sort_by(|one, other| one.id.cmp(&other.id));
    tools
}

fn call_info(call: &crate::calls::pending::PendingCall) -> CallInfo {
    CallInfo {
        head: call.head.clone(),
        state: call.state(),
        attempt: call.attempt,
        phases: call.phases(Instant::now()),
        finished: None,
    }
}

/// The one task for deadlines: ends overdue calls and clients whose grace is over, and forgets old entries.
async fn housekeeping(hub: Hub) {
    let common = hub.0.shards.common();
    let mut tidied = Instant::now();
    loop {
        let changed = common.changed.notified();
        tokio::pin!(changed);
        // Listen before reading the next time to look, so that no change in between is missed.
        changed.as_mut().enable();
        if common.lifecycle() == Lifecycle::Closed {
            return;
        }
        if tokio::time::timeout_at(common.next_look(), changed).await.is_ok() {
            continue;
        }
        common.look();
        for (endings, next) in hub.everywhere(|table| table.expire_due(Instant::now())) {
            // No ending waits for the journaling of another.
            endings.into_iter().for_each(|ending| hub.journal_in_background(ending));
            next.map(|next| common.look_by(next));
        }
        if tidied.elapsed() >= HOUSEKEEPING {
            hub.everywhere(|table| table.forget_idle_rates()).for_each(drop);
            tidied = Instant::now();
        }
        common.look_by(tidied + HOUSEKEEPING);
    }
}
