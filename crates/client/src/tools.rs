//! The tools of a client: a connection that offers them, runs their calls and reconnects when it is lost.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `lease` | the sessions that a connection was opened for |
//! | `link` | keeps the client connected, and registers its tools on each connection |
//! | `connection` | one connection, independent of its transport |
//! | `socket`, `stream` | the transports: a WebSocket; server-sent events and requests |
//! | `calls` | the calls that run: one task each, from its arrival to the delivery of its result |
//! | `memory`, `journal` | records of calls in this process and beyond it, so that no call runs twice |
//! | `clock` | deadlines, on this machine's clock |
//! | `status` | the state of the connection, and its events |

mod calls;
mod clock;
mod connection;
mod journal;
mod lease;
mod link;
mod memory;
mod socket;
mod status;
mod stream;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use crate::api::Api;
use crate::error::Error;
use crate::lock::lock;
use crate::tool::{Handler, Tool};
pub(crate) use clock::LONGEST_CALL;
pub use journal::Journal;
pub(crate) use lease::ToolsLease;
use link::{Change, Command, Link};
use memory::Memory;
pub(crate) use socket::events_of as message_events;
pub use status::{Observer, State, Status};
pub(crate) use stream::events_of as stream_events;

/// How many changes wait for the connection; further callers wait for room.
const MAX_WAITING_CHANGES: usize = 64;

/// The transport that carries the calls to this client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Transport {
    /// A stream of server-sent events, and a request for each result. It works wherever HTTP does.
    #[default]
    Sse,
    /// A WebSocket for both, with less work for each call.
    WebSocket,
}

/// The options of a client; the defaults suit most.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// The transport of the calls.
    pub transport: Transport,
    /// How long the server keeps tools and calls when the connection is lost: 30 s, at most 5 minutes.
    pub grace: Duration,
    /// The record of calls; by default, in memory.
    pub journal: Journal,
    /// The delays between the tries to connect: they double from the first (1 s) to the second (30 s), and each is
    /// shortened at random by up to half.
    pub reconnect: (Duration, Duration),
    /// How many tries in a row may fail; `None` is any number.
    pub max_reconnect_attempts: Option<u32>,
    /// A connection that is silent for this long counts as lost: 90 s. The server sends something every 30 s.
    pub silence: Duration,
    /// A function that is called with everything that happens.
    pub observer: Observer,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            transport: Transport::default(),
            grace: Duration::from_secs(30),
            journal: Journal::memory(),
            reconnect: (Duration::from_secs(1), Duration::from_secs(30)),
            max_reconnect_attempts: None,
            silence: Duration::from_secs(90),
            observer: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Options").field("transport", &self.transport).finish_non_exhaustive()
    }
}

/// The tools that this process offers as one client. Clones are the same client.
///
/// To the server, all connections with one client id are the same client, and it gives a call to any of them: each
/// should offer the same tools, and have the same [`Journal`].
///
/// Dropping the last clone drops the connection; [`disconnect`](Self::disconnect) says goodbye first. If a handler
/// holds a clone, only [`disconnect`](Self::disconnect) ends the client.
#[derive(Clone)]
pub struct ClientTools {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    running: Mutex<Option<Running>>,
    tasks: TaskTracker,
    /// The sessions that the connection was opened for, while there are any.
    sessions: tokio::sync::Mutex<Weak<()>>,
}

/// The state that the client and the tasks of its connection share.
struct Shared {
    api: Api,
    client_id: String,
    options: Options,
    offered: Mutex<Offered>,
    memory: Mutex<Memory>,
    state: watch::Sender<State>,
    /// The name of the connection. A new connection supersedes an older one of the same name.
    connection: Mutex<String>,
}

/// The tools that are offered, and the sessions that have them.
#[derive(Default)]
struct Offered {
    /// The tools, in the order of registration.
    tools: Vec<Tool>,
    /// A tool that waits for the server's answer.
    proposed: Option<Tool>,
    /// The sessions that the tools are offered in; `None` is all of the client's.
    sessions: Vec<Option<String>>,
}

/// The task that keeps a connection.
struct Running {
    /// Takes changes for the task. It is closed when the task is over, and the state says why.
    commands: Commands,
    /// Ends the task with a goodbye.
    stop: CancellationToken,
    /// Ends the task at once, without a goodbye.
    _task: AbortOnDropHandle<()>,
}

type Commands = mpsc::Sender<Command>;

impl ClientTools {
    /// A client with this id. It offers nothing yet, and is not connected.
    pub fn new(api: Api, client_id: impl Into<String>, options: Options) -> Self {
        let shared = Shared {
            api,
            client_id: client_id.into(),
            options,
            offered: Mutex::default(),
            memory: Mutex::default(),
            state: watch::Sender::new(State::Closed(None)),
            connection: Mutex::default(),
        };
        let (shared, running, sessions) = (Arc::new(shared), Mutex::default(), tokio::sync::Mutex::default());
        Self { inner: Arc::new(Inner { shared, running, tasks: TaskTracker::new(), sessions }) }
    }

    /// The client's id.
    pub fn client_id(&self) -> &str {
        &self.inner.shared.client_id
    }

    pub(crate) fn api(&self) -> &Api {
        &self.inner.shared.api
    }

    pub(crate) fn tasks(&self) -> &TaskTracker {
        &self.inner.tasks
    }

    /// The state of the connection as it changes.
    pub fn state(&self) -> watch::Receiver<State> {
        self.inner.shared.state.subscribe()
    }

    /// The name of the connection, from [`connect`](Self::connect) to [`disconnect`](Self::disconnect). The calls of a
    /// prompt that names it run here, as long as this connection is there, and not in another process of the same
    /// client. The name may change when a connection is lost.
    pub fn connection(&self) -> Option<String> {
        let running = lock(&self.inner.running);
        running.as_ref().and_then(Running::commands).map(|_| self.inner.shared.connection_name())
    }

    /// Offers a tool, in place of an earlier one of the same name. Returns when the server has confirmed it; before
    /// [`connect`](Self::connect), at once.
    ///
    /// # Errors
    /// The server refuses the tool, or a gateway does so in its place for a minute; then the tool is not offered.
    /// [`Error::Closed`] if the client is disconnected before the server has confirmed.
    pub async fn register(&self, tool: Tool) -> Result<(), Error> {
        self.change(Change::Register(tool)).await
    }

    /// Unregisters a tool; its calls under way continue. Returns when the server has confirmed it; before
    /// [`connect`](Self::connect), at once.
    ///
    /// # Errors
    /// See [`Error`]; the tool is no longer offered in any case.
    pub async fn unregister(&self, name: &str) -> Result<(), Error> {
        lock(&self.inner.shared.offered).remove(name);
        self.change(Change::Unregister(name.to_owned())).await
    }

    /// Connects, and stays connected until [`disconnect`](Self::disconnect): a lost connection is opened again, and the
    /// tools are registered again. Returns when the connection is open and the tools are registered, however long that
    /// takes. The tools are offered in this session, or in all sessions of the client. A second call with another
    /// session offers them there as well.
    ///
    /// # Errors
    /// An error that a retry does not fix: the server does not accept the credentials, or refuses the client or its
    /// tools at the first connection.
    pub async fn connect(&self, session: Option<&str>) -> Result<(), Error> {
        let session = session.map(str::to_owned);
        let mut state = self.state();
        while let Some((commands, stop)) = self.inner.start_unless_running(&session) {
            if !stop.is_cancelled() {
                return self.command(commands, Change::Join(session)).await;
            }
            // The goodbye of the earlier connection comes first.
            commands.closed().await;
        }
        let reached = state.wait_for(|state| matches!(state, State::Open | State::Closed(_))).await;
        match reached.as_deref() {
            Ok(State::Open) => Ok(()),
            Ok(state) => Err(self.inner.shared.why_closed(state)),
            Err(_) => Err(self.inner.shared.disconnected()),
        }
    }

    /// Registers all tools once more, in case the server has restarted and the connection does not know it yet. Returns
    /// when the server has confirmed them; at once if the client is not connected.
    ///
    /// # Errors
    /// The server refuses the tools; [`Error::Closed`] if the client is disconnected meanwhile.
    pub async fn confirm(&self) -> Result<(), Error> {
        self.change(Change::Confirm).await
    }

    /// Says goodbye: cancels the handlers, which have a few seconds to end, unregisters the tools, and closes the
    /// connection. Another connection of the same client keeps the tools.
    ///
    /// This waits for the handlers, so a handler that waits for it is dropped after those seconds.
    pub async fn disconnect(&self) {
        let commands = match &*lock(&self.inner.running) {
            Some(running) => {
                running.stop.cancel();
                running.commands.clone()
            }
            None => return,
        };
        commands.closed().await;
    }

    /// Connects, stays connected until `shutdown` fires, and says goodbye, for a program that does nothing else.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); also if the server refuses the client later.
    pub async fn run(&self, session: Option<&str>, shutdown: CancellationToken) -> Result<(), Error> {
        let closed = async {
            self.connect(session).await?;
            let mut state = self.state();
            match state.wait_for(|state| matches!(state, State::Closed(_))).await.as_deref() {
                Ok(State::Closed(Some(error))) => Err(error.clone()),
                _ => Ok(()),
            }
        };
        tokio::select! {
            ended = closed => ended,
            () = shutdown.cancelled() => {
                self.disconnect().await;
                Ok(())
            }
        }
    }

    /// Makes a change, and returns when the server has confirmed it; at once if no connection is wanted.
    async fn change(&self, change: Change) -> Result<(), Error> {
        let commands = {
            // The lock is held until the change is made, so that a concurrent `connect` sees it.
            let running = lock(&self.inner.running);
            let Some(commands) = running.as_ref().and_then(Running::commands) else {
                lock(&self.inner.shared.offered).apply(change);
                return Ok(());
            };
            commands
        };
        self.command(commands, change).await
    }

    /// Tells the task to make a change, and returns when the server has confirmed it.
    async fn command(&self, commands: Commands, change: Change) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        // The send fails if the task has ended, which the select sees.
        let _ = commands.send(Command { change, answer }).await;
        tokio::select! {
            biased;
            Ok(answer) = answered => answer,
            // A command that is sent while the task ends may stay in the channel, and never be answered.
            () = commands.closed() => Err(self.inner.shared.why_closed(&self.inner.shared.state.borrow())),
        }
    }
}

impl fmt::Debug for ClientTools {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("ClientTools");
        debug.field("client_id", &self.client_id()).field("state", &*self.inner.shared.state.borrow());
        debug.finish_non_exhaustive()
    }
}

impl Inner {
    /// Starts a connection that offers the tools in this session, unless there is one. If the existing one does not
    /// offer them there or is about to end, this returns its command channel and the token that says whether it ends.
    fn start_unless_running(&self, session: &Option<String>) -> Option<(Commands, CancellationToken)> {
        let mut running = lock(&self.running);
        let mut offered = lock(&self.shared.offered);
        if let Some(earlier) = running.as_ref().filter(|earlier| !earlier.commands.is_closed()) {
            let is_offered = !earlier.stop.is_cancelled() && offered.sessions.contains(session);
            return (!is_offered).then(|| (earlier.commands.clone(), earlier.stop.clone()));
        }
        offered.sessions = vec![session.clone()];
        // The server never confirmed the tool that an earlier connection proposed.
        offered.proposed = None;
        let (commands, receiver) = mpsc::channel(MAX_WAITING_CHANGES);
        let stop = CancellationToken::new();
        self.shared.state.send_replace(State::Connecting);
        let link = Link::new(Arc::clone(&self.shared), receiver, self.tasks.clone(), stop.clone());
        *running = Some(Running { commands, stop, _task: AbortOnDropHandle::new(self.tasks.spawn(link.run())) });
        None
    }
}

impl Running {
    /// The channel to the task for changes; `None` if the task has ended or is about to end.
    fn commands(&self) -> Option<Commands> {
        (!self.stop.is_cancelled() && !self.commands.is_closed()).then(|| self.commands.clone())
    }
}

impl Shared {
    fn connection_name(&self) -> String {
        lock(&self.connection).clone()
    }

    /// Gives the connection a new unique name.
    fn rename_connection(&self) {
        *lock(&self.connection) = format!("{:032x}", fastrand::u128(..));
    }

    fn full_id(&self, name: &str) -> String {
        format!("client_{}_{name}", self.client_id)
    }

    /// The handler of a tool, by its full id.
    fn handler(&self, full_id: &str) -> Option<Handler> {
        let name = full_id.strip_prefix("client_")?.strip_prefix(&self.client_id)?.strip_prefix('_')?;
        let offered = lock(&self.offered);
        let mut tools = offered.proposed.iter().chain(&offered.tools);
        tools.find(|tool| tool.definition.id == name).map(|tool| Arc::clone(&tool.handler))
    }

    /// Calls the observer, whose panics are caught.
    fn tell(&self, status: Status) {
        if catch_unwind(AssertUnwindSafe(|| (self.options.observer)(status))).is_err() {
            tracing::error!("the observer panicked");
        }
    }

    /// The error of callers that wait for a connection when it enters this state.
    fn why_closed(&self, state: &State) -> Error {
        match state {
            State::Closed(Some(error)) => error.clone(),
            _ => self.disconnected(),
        }
    }

    fn disconnected(&self) -> Error {
        let reason = "this client was disconnected".to_owned();
        Error::Closed { url: self.api.url().to_owned(), reason }
    }
}

impl Offered {
    /// Makes a change that the server has confirmed, or that needs no confirmation.
    fn apply(&mut self, change: Change) {
        match change {
            Change::Register(tool) => {
                // A tool replaces one with the same name.
                match self.tools.iter_mut().find(|known| known.definition.id == tool.definition.id) {
                    Some(known) => *known = tool,
                    None => self.tools.push(tool),
                }
            }
            Change::Unregister(name) => self.remove(&name),
            // Two callers may have joined the same session.
            Change::Join(session) if self.sessions.contains(&session) => {}
            Change::Join(session) => self.sessions.push(session),
            Change::Confirm => {}
        }
    }

    fn remove(&mut self, name: &str) {
        self.tools.retain(|tool| tool.definition.id != name);
    }
}
