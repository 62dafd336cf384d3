//! The handle that everything is reached by: a cheap clone of one shared state.

mod listing;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::aside::Aside;
use crate::call::{CallHead, CallState, Cancellation, FinishedCall, Outcome, Phases};
use crate::clock::Clock;
use crate::delegate::Ended;
use crate::event::{Event, Events, Subscription};
use crate::finished::End;
use crate::id::{ClientId, RequestId, SessionId, ToolId};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::rate::Rate;
use crate::schema::Schemas;
use crate::store::{CallFilter, Most, Store, StoreError};
use crate::table::{Lifecycle, Table};
use crate::tool::{Tool, ToolSpec};

pub use self::listing::{CallCursor, CallPlace};
pub use crate::registry::{Placement, RegisterError};
pub use crate::table::ClientInfo;

/// How many calls of an earlier process are remembered, at most: they are read as a whole.
const RECALLED: usize = 1_000;
/// How often what has grown old is forgotten, at the latest.
const HOUSEKEEPING: Duration = Duration::from_secs(60);

/// Clients, tools and calls of one server.
#[derive(Clone)]
pub struct Hub(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    // std's mutex: sections are short and nothing is awaited inside.
    table: Mutex<Table>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) clock: Clock,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) schemas: Schemas,
    aside: Aside,
    pub(crate) model_rate: Rate,
    pub(crate) execute_rate: Rate,
    pub(crate) epoch: Arc<str>,
    /// Journal writes that nobody awaits.
    pub(crate) tasks: TaskTracker,
    /// Where those run: what is dropped may be dropped anywhere.
    pub(crate) runtime: Handle,
    metrics: Metrics,
    events: Events,
    /// An expiry was set, or the last call ended while the server is draining.
    changed: Notify,
    /// Set before the table's own lifecycle: the end of a call is announced only when somebody waits for it.
    draining: AtomicBool,
}

/// What there is, in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Known clients.
    pub clients: usize,
    /// Open connections.
    pub connections: usize,
    /// Registered tools.
    pub tools: usize,
    /// Calls under way.
    pub calls: usize,
}

/// A call, under way or over.
#[derive(Debug, Clone)]
pub struct CallInfo {
    /// What was asked.
    pub head: Arc<CallHead>,
    /// Where it stands.
    pub state: CallState,
    /// Which offer it is at, from 1.
    pub attempt: u32,
    /// How long it took so far.
    pub phases: Phases,
    /// The whole of it, once it is over.
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
    /// A hub with nothing in it. Its housekeeping runs on `tasks` until the hub is closed; there must be a runtime.
    pub fn new(limits: Limits, clock: Clock, store: Arc<dyn Store>, tasks: TaskTracker) -> Self {
        let limits = Arc::new(limits);
        let (events, aside) = (Events::new(&limits), Aside::default());
        let hub = Self(Arc::new(Shared {
            table: Mutex::new(Table::new(limits.clone(), events.clone())),
            model_rate: Rate::per_minute(limits.model_calls_per_minute),
            execute_rate: Rate::per_minute(limits.execute_calls_per_minute),
            epoch: clock.epoch(),
            limits,
            clock,
            store,
            schemas: Schemas::new(aside.clone()),
            aside,
            tasks,
            runtime: Handle::current(),
            metrics: Metrics::default(),
            events,
            changed: Notify::new(),
            draining: AtomicBool::new(false),
        }));
        hub.0.tasks.spawn(housekeeping(hub.clone()));
        hub
    }

    /// Does something to the table, then wakes whom it concerns.
    pub(crate) fn locked<R>(&self, act: impl FnOnce(&mut Table) -> R) -> R {
        let mut table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut table);
        let wakers = table.take_wakers();
        drop(table);
        wakers.wake();
        result
    }

    /// Does something to its end, whether or not whoever asks for it goes meanwhile.
    pub(crate) async fn finish<T, E>(&self, work: impl Future<Output = Result<T, E>> + Send + 'static) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
    {
        let task = self.0.tasks.spawn_on(work, &self.0.runtime);
        task.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string()).into()))
    }

    /// Something changed that housekeeping or shutting down waits for.
    pub(crate) fn changed(&self) {
        self.0.changed.notify_waiters();
    }

    /// A call is over; whoever shuts the server down waits for the last one.
    pub(crate) fn changed_if_draining(&self) {
        if self.0.draining.load(Ordering::Relaxed) {
            self.changed();
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

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Where work is done that takes long.
    pub fn aside(&self) -> &Aside {
        &self.0.aside
    }

    /// Compiled schemas, shared between tools.
    pub fn schemas(&self) -> &Schemas {
        &self.0.schemas
    }

    /// Tells whoever listens.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        self.0.events.emit(event);
    }

    /// Whether anybody listens.
    pub(crate) fn is_watched(&self) -> bool {
        self.0.events.is_watched()
    }

    /// Remembers calls that ended in an earlier process a short while ago, for late and repeated answers.
    pub async fn recall(&self) -> Result<(), StoreError> {
        let most = self.0.limits.remembered_calls.min(RECALLED);
        let finished = self.0.store.list_finished(&CallFilter::default(), None, Most::items(most)).await?.items;
        let (now, wall) = (Instant::now(), self.0.clock.now());
        self.locked(|table| {
            for (_, call) in finished.iter().rev() {
                let Phases { approval, queue, execute } = call.phases;
                let ended = call.head.created + approval + queue + execute;
                let age = wall.duration_since(ended).unwrap_or_default();
                if age < self.0.limits.remembered_for {
                    let end = call.outcome.answer_hash().map_or(End::Otherwise, End::Answered);
                    table.finished.insert(&call.head, end, now.checked_sub(age).unwrap_or(now));
                }
            }
        });
        Ok(())
    }

    /// All that happens from now on.
    pub fn subscribe(&self) -> Subscription {
        self.0.events.subscribe()
    }

    /// Registers all the tools or none.
    pub fn register(
        &self,
        client: &ClientId,
        placement: &Placement,
        specs: Vec<ToolSpec>,
    ) -> Result<Vec<ToolId>, RegisterError> {
        let wall = self.0.clock.now();
        let registered = self.locked(|table| table.register(client, placement, specs, Instant::now(), wall));
        self.changed();
        registered
    }

    /// Unregisters tools by name or full id, all of the client's when `which` is `None`; calls under way go on.
    pub fn unregister(&self, client: &ClientId, session: Option<&SessionId>, which: Option<&[String]>) -> Vec<ToolId> {
        self.locked(|table| table.unregister(client, session, which))
    }

    /// A session is gone, and with it the tools that were only there.
    pub(crate) fn forget_session(&self, session: &SessionId) {
        self.locked(|table| table.forget_session(session));
    }

    /// A client's tools in order of registration; with a session, those offered there.
    pub fn tools_of(&self, client: &ClientId, session: Option<&SessionId>) -> Vec<Arc<Tool>> {
        self.locked(|table| table.registry.of_client(client, session))
    }

    /// The tools, of any client, that were registered for a session by name.
    pub fn tools_for_session(&self, session: &SessionId) -> Vec<Arc<Tool>> {
        self.locked(|table| table.registry.of_session(session))
    }

    /// All tools, by id.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        let mut tools = self.locked(|table| table.registry.all());
        tools.sort_by(|one, other| one.id.cmp(&other.id));
        tools
    }

    /// All clients, by id.
    pub fn clients(&self) -> Vec<ClientInfo> {
        self.locked(|table| table.clients())
    }

    /// A client, as somebody sees it who is limited to that session, or not at all.
    pub fn client(&self, id: &ClientId, limit: Option<&SessionId>) -> Option<ClientInfo> {
        self.locked(|table| table.client(id, limit))
    }

    /// What there is, in numbers.
    pub fn counts(&self) -> Counts {
        self.locked(|table| Counts {
            clients: table.count_clients(),
            connections: table.count_connections(),
            tools: table.registry.count(),
            calls: table.calls.len(),
        })
    }

    /// One call. Waits until it is over, or for so long.
    pub async fn call(&self, request: &RequestId, wait: Duration) -> Result<Option<CallInfo>, StoreError> {
        let over = self.locked(|table| {
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
        let under_way = self.locked(|table| table.calls.get(request).map(call_info));
        match under_way {
            Some(call) => Ok(Some(call)),
            None => Ok(self.0.store.finished(request).await?.map(CallInfo::from)),
        }
    }

    /// From now on no new calls are taken.
    pub fn start_draining(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        self.locked(|table| table.lifecycle = table.lifecycle.max(Lifecycle::Draining));
    }

    /// Whether new calls are taken.
    pub fn is_serving(&self) -> bool {
        self.locked(|table| table.lifecycle == Lifecycle::Serving)
    }

    /// Takes no new calls, lets those under way finish for a while, ends the others, and tells all connections to go.
    pub async fn close(&self, patience: Duration) {
        self.start_draining();
        let idle = async {
            loop {
                let changed = self.0.changed.notified();
                tokio::pin!(changed);
                // Listens before it looks, so that no change is missed in between.
                changed.as_mut().enable();
                if self.locked(|table| table.calls.is_empty()) {
                    return;
                }
                changed.await;
            }
        };
        // Out of patience is no error: what is left is ended next.
        _ = tokio::time::timeout(patience, idle).await;
        let left: Vec<RequestId> = self.locked(|table| table.calls.keys().cloned().collect());
        for request in left {
            if let Some(ended) = self.end(&request, Outcome::Cancelled(Cancellation::ShuttingDown)) {
                ended.settle().await;
            }
        }
        self.locked(Table::close);
        self.changed();
    }

    /// Ends a call if it is still under way; whoever gets the result settles it.
    pub(crate) fn end(&self, request: &RequestId, outcome: Outcome) -> Option<Ended> {
        let ending = self.locked(|table| table.finish(request, outcome, None, Instant::now()))?;
        Some(Ended::new(self, ending))
    }
}

fn call_info(call: &crate::call::Call) -> CallInfo {
    CallInfo {
        head: call.head.clone(),
        state: call.state(),
        attempt: call.attempt,
        phases: call.phases(Instant::now()),
        finished: None,
    }
}

/// The one task for deadlines that nobody awaits: ends clients whose grace is over, forgets what is old.
async fn housekeeping(hub: Hub) {
    loop {
        let changed = hub.0.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        let (endings, next, lifecycle) = hub.locked(|table| {
            let (endings, next) = table.expire_due(Instant::now());
            (endings, next, table.lifecycle)
        });
        for ending in endings {
            Ended::new(&hub, ending).settle().await;
        }
        if lifecycle == Lifecycle::Closed {
            return;
        }
        let latest = Instant::now() + HOUSEKEEPING;
        let idle = tokio::time::timeout_at(next.map_or(latest, |next| next.min(latest)), changed).await.is_err();
        if idle {
            hub.0.model_rate.forget_idle();
            hub.0.execute_rate.forget_idle();
        }
    }
}
