//! One connection after the other, and what is registered on each.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_wire::client_tools::{DisconnectRequest, RegisterRequest, UnregisterRequest};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Calls;
use super::connection::{Connection, Speaker};
use super::incoming::Incoming;
use super::{Shared, State, Status};
use crate::error::Error;
use crate::retry::{Backoff, Reconnect};
use crate::tool::Tool;

/// How long a connection that is being opened may still take when this client stops.
const OPENING: Duration = Duration::from_secs(1);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_secs(5);

/// Something to change about what is offered.
pub(super) enum Change {
    Register(Tool),
    /// The tool is not among those offered any more; the server is to be told.
    Unregister(String),
    /// Offer all tools in this session as well.
    Join(Option<String>),
    /// Register all tools once more.
    Confirm,
}

/// A change, and where to say that the server has confirmed or refused it.
pub(super) struct Command {
    pub(super) change: Change,
    pub(super) answer: oneshot::Sender<Result<(), Error>>,
}

/// The task that keeps a client connected.
pub(super) struct Link {
    shared: Arc<Shared>,
    /// The change that the server is being asked for; it is asked again on the next connection if this one is lost.
    command: Option<Command>,
    calls: Calls,
    /// Where results go: to the connection that is open, or by requests that need none.
    speaker: watch::Sender<Option<Speaker>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    last_event_id: Option<String>,
    reconnect: Reconnect,
    /// Why the server refused this client for good.
    refused: Option<Error>,
    /// The last field, and so the last to be dropped: once it is closed, all of the task is gone.
    commands: mpsc::Receiver<Command>,
}

impl Drop for Link {
    /// Says that the task is over, however it ended.
    fn drop(&mut self) {
        self.shared.state.send_replace(State::Closed(self.refused.take()));
    }
}

impl Link {
    pub(super) fn new(
        shared: Arc<Shared>,
        commands: mpsc::Receiver<Command>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let speaker = watch::Sender::new(Speaker::without_connection(&shared));
        let (first, longest) = shared.options.reconnect;
        shared.rename_connection();
        Self {
            calls: Calls::new(Arc::clone(&shared), speaker.subscribe()),
            reconnect: Reconnect::new(Backoff::new(first, longest), shared.options.max_reconnect_attempts),
            command: None,
            last_event_id: None,
            refused: None,
            shared,
            commands,
            speaker,
            tasks,
            stop,
        }
    }

    /// Connects, runs the calls that come, and connects again whenever the connection is lost, until it is stopped or
    /// refused for good.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        loop {
            let Err(lost) = self.serve(&stop).await else { return };
            self.speaker.send_replace(Speaker::without_connection(&self.shared));
            if matches!(lost, Error::Superseded { .. }) {
                // Nobody else has this name: it was an older try of ours, which the network delivered late. Under
                // another name that cannot happen again, and whoever took over does no harm.
                self.shared.rename_connection();
            }
            let Some(retry_in) = self.reconnect.delay_after(&lost) else {
                self.calls.stop().await;
                self.refused = Some(lost);
                return;
            };
            tracing::warn!(error = %lost, ?retry_in, "not connected");
            self.shared.tell(Status::Disconnected { reason: lost.to_string(), retry_in });
            self.shared.state.send_replace(State::Retrying);
            tokio::select! {
                () = sleep(retry_in) => {}
                () = stop.cancelled() => return self.leave().await,
            }
        }
    }

    /// Opens a connection and runs the calls that come on it, until it is lost (an error) or this client stops.
    async fn serve(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let name = shared.connection_name();
        let opened = {
            let mut opening = pin!(Connection::open(&shared, &name, self.last_event_id.as_deref(), &self.tasks));
            tokio::select! {
                opened = &mut opening => Ok(opened?),
                // What is on its way would arrive after the goodbye, and be taken for a client that is there.
                () = stop.cancelled() => Err(timeout(OPENING, opening).await),
            }
        };
        let mut connection = match opened {
            Ok(connection) => connection,
            Err(_opened_too_late) => {
                self.leave().await;
                return Ok(());
            }
        };
        let speaker = connection.speaker.clone();
        self.speaker.send_replace(Some(speaker.clone()));
        // After the connection is open: it keeps its client's tools from being cleared away, so none is lost to a grace
        // that ends just now.
        let mut asking = Some(ask(&shared, &speaker, &Change::Confirm));
        let mut is_registered = false;
        loop {
            tokio::select! {
                incoming = connection.next() => match incoming? {
                    Incoming::Request(request, deadline) => self.calls.take(request, deadline),
                    Incoming::Cancel(cancel) => self.calls.cancel(cancel),
                    Incoming::Seen(id) => self.last_event_id = id,
                },
                answer = answer_to(&mut asking) => {
                    if is_registered {
                        self.conclude(answer)?;
                    } else {
                        answer?;
                        is_registered = true;
                        self.opened();
                    }
                    // A change that the connection before this one did not see through comes first.
                    asking = self.command.as_ref().map(|command| ask(&shared, &speaker, &command.change));
                }
                Some(command) = self.commands.recv(), if asking.is_none() => {
                    asking = Some(ask(&shared, &speaker, &command.change));
                    self.command = Some(command);
                }
                // The connection is kept until the goodbye is said: calls under way stay with it.
                () = stop.cancelled() => {
                    self.leave().await;
                    return Ok(());
                }
            }
        }
    }

    fn opened(&mut self) {
        self.reconnect.connected();
        let tools = self.shared.offered().tools.iter().map(|tool| self.shared.full_id(&tool.definition.id)).collect();
        tracing::info!(?tools, "connected");
        self.shared.tell(Status::Connected { tools });
        self.shared.state.send_replace(State::Open);
    }

    /// The server has answered a change; an error if it could not, and is to be asked on another connection.
    fn conclude(&mut self, answer: Result<(), Error>) -> Result<(), Error> {
        if let Err(error) = &answer
            && error.is_transient()
        {
            return answer;
        }
        let Some(command) = self.command.take() else { return Ok(()) };
        let mut offered = self.shared.offered();
        offered.proposed = None;
        if answer.is_ok() {
            match command.change {
                Change::Register(tool) => offered.put(tool),
                Change::Unregister(name) => offered.take(&name),
                // Two may have asked for the same one.
                Change::Join(session) if offered.sessions.contains(&session) => {}
                Change::Join(session) => offered.sessions.push(session),
                Change::Confirm => {}
            }
        }
        // Whoever asked may have gone.
        let _ = command.answer.send(answer);
        Ok(())
    }

    /// Ends the calls, and tells the server that this connection will not return.
    async fn leave(&mut self) {
        self.calls.stop().await;
        let (client_id, connection) = (self.shared.client_id.clone(), self.shared.connection_name());
        let request = DisconnectRequest { client_id, connection };
        match timeout(GOODBYE, self.shared.api.disconnect(&request)).await {
            Ok(Ok(_done)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the goodbye failed; the server keeps the tools for the grace"),
            Err(_elapsed) => tracing::warn!("the goodbye took too long; the server keeps the tools for the grace"),
        }
    }
}

type Asking = BoxFuture<'static, Result<(), Error>>;

/// What the server says to what it is being asked; never, if it is asked nothing.
async fn answer_to(asking: &mut Option<Asking>) -> Result<(), Error> {
    match asking {
        Some(question) => {
            let answer = question.await;
            *asking = None;
            answer
        }
        None => pending().await,
    }
}

/// Asks the server for a change.
fn ask(shared: &Shared, speaker: &Speaker, change: &Change) -> Asking {
    let (client_id, speaker) = (shared.client_id.clone(), speaker.clone());
    let mut offered = shared.offered();
    let all = |tools: &[Tool]| -> Vec<_> { tools.iter().map(|tool| tool.definition.clone()).collect() };
    let (tools, sessions) = match change {
        Change::Register(tool) => {
            // A call of it may come before the answer does.
            offered.proposed = Some(tool.clone());
            (vec![tool.definition.clone()], offered.sessions.clone())
        }
        Change::Join(session) => (all(&offered.tools), vec![session.clone()]),
        Change::Confirm => (all(&offered.tools), offered.sessions.clone()),
        Change::Unregister(name) => {
            let tool_ids = Some(vec![shared.full_id(name)]);
            let request = UnregisterRequest { client_id, session_id: None, tool_ids };
            return async move { speaker.unregister(&request).await }.boxed();
        }
    };
    // There is nothing to ask for without tools.
    let sessions = if tools.is_empty() { Vec::new() } else { sessions };
    async move {
        for session_id in sessions {
            let request = RegisterRequest { client_id: client_id.clone(), session_id, tools: tools.clone() };
            speaker.register(&request).await?;
        }
        Ok(())
    }
    .boxed()
}
