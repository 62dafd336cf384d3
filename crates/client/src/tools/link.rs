//! The task that keeps a client connected, and registers its tools on each connection.

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_wire::client_tools::{DisconnectRequest, RegisterRequest, UnregisterRequest};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::calls::Calls;
use super::connection::{ClientRequest, Connection, ConnectionEvent, Uplink};
use super::{Shared, State, Status};
use crate::error::Error;
use crate::lock::lock;
use crate::retry::{Backoff, PATIENCE, Reconnect};
use crate::tool::Tool;

/// How long to wait for a connection that is being opened when the client stops.
const OPENING_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the goodbye may take.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(5);

/// A change to what the client offers.
pub(super) enum Change {
    Register(Tool),
    /// The client no longer offers this tool, and the server must be notified.
    Unregister(String),
    /// Offer all tools in this session as well.
    Join(Option<String>),
    /// Register all tools once more.
    Confirm,
}

/// A change, and where the server's answer to it goes.
pub(super) struct Command {
    pub(super) change: Change,
    pub(super) answer: oneshot::Sender<Result<(), Error>>,
}

/// The task that keeps a client connected.
pub(super) struct Link {
    shared: Arc<Shared>,
    /// The change that waits for the server's answer. If the connection is lost, the next one asks again.
    command: Option<Command>,
    /// Since when something on the way answers that change in the server's place, while the server can be connected to.
    proxy_answers_since: Option<Instant>,
    calls: Calls,
    /// The uplink of the open connection, or one that needs no connection.
    uplink: watch::Sender<Option<Uplink>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    /// The id of the latest event, from which the next connection resumes.
    cursor: Option<String>,
    reconnect: Reconnect,
    /// Why the server refused this client for good.
    refused: Option<Error>,
    /// The last field, and so the last to be dropped: once the channel is closed, all of the task is gone.
    commands: mpsc::Receiver<Command>,
}

impl Drop for Link {
    /// Shows in the state that the task is over, however it ended.
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
        let uplink = watch::Sender::new(Uplink::without_connection(&shared));
        shared.rename_connection();
        Self {
            calls: Calls::new(Arc::clone(&shared), uplink.subscribe()),
            reconnect: Reconnect::new(Backoff::new(shared.options.reconnect), shared.options.max_reconnect_attempts),
            command: None,
            proxy_answers_since: None,
            cursor: None,
            refused: None,
            shared,
            commands,
            uplink,
            tasks,
            stop,
        }
    }

    /// Connects, runs the calls, and reconnects, until the client stops or is refused for good.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        loop {
            let Err(lost) = self.serve(&stop).await else { return };
            self.uplink.send_replace(Uplink::without_connection(&self.shared));
            if matches!(lost, Error::Superseded { .. }) {
                // Only this client uses the name, so a late request of its own has superseded the connection. With a
                // new name that cannot happen again.
                self.shared.rename_connection();
            }
            if lost.is_transient() {
                self.proxy_answers_since = None;
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

    /// Opens a connection and runs its calls, until it is lost (an error) or the client stops. It stays open until the
    /// goodbye is said, so that calls under way stay with it.
    async fn serve(&mut self, stop: &CancellationToken) -> Result<(), Error> {
        let (shared, tasks, cursor) = (Arc::clone(&self.shared), self.tasks.clone(), self.cursor.clone());
        let mut opening = pin!(Connection::open(&shared, cursor.as_deref(), &tasks));
        let (mut connection, uplink) = tokio::select! {
            opened = &mut opening => opened?,
            () = stop.cancelled() => {
                // If the request arrived after the goodbye, the server would take the client for connected.
                let _opened_too_late = timeout(OPENING_TIMEOUT, opening).await;
                self.leave().await;
                return Ok(());
            }
        };
        self.uplink.send_replace(Some(uplink.clone()));
        // The tools are registered after the connection is open: it ends the grace, so the server keeps all of them.
        let mut asking = Some(ask(&shared, &uplink, &Change::Confirm));
        let mut is_registered = false;
        loop {
            tokio::select! {
                event = connection.next(&mut self.cursor) => match event? {
                    ConnectionEvent::Request(request, deadline) => self.calls.take(request, deadline),
                    ConnectionEvent::Cancel(cancel) => self.calls.cancel(cancel),
                },
                answer = answer_to(&mut asking) => {
                    if is_registered {
                        self.conclude(answer)?;
                    } else {
                        answer?;
                        is_registered = true;
                        self.opened();
                    }
                    // A change that the connection before this one did not complete comes first.
                    asking = self.command.as_ref().map(|command| ask(&shared, &uplink, &command.change));
                }
                Some(command) = self.commands.recv(), if asking.is_none() => {
                    asking = Some(ask(&shared, &uplink, &command.change));
                    self.command = Some(command);
                }
                () = stop.cancelled() => {
                    self.leave().await;
                    return Ok(());
                }
            }
        }
    }

    fn opened(&mut self) {
        self.reconnect.connected();
        let tools =
            lock(&self.shared.offered).tools.iter().map(|tool| self.shared.full_id(&tool.definition.id)).collect();
        tracing::info!(?tools, "connected");
        self.shared.tell(Status::Connected { tools });
        self.shared.state.send_replace(State::Open);
    }

    /// Takes the server's answer to a change of the offered tools. After an error that may pass the connection ends, and the
    /// next one asks for the same change again.
    fn conclude(&mut self, answer: Result<(), Error>) -> Result<(), Error> {
        if answer.as_ref().is_err_and(|error| self.may_pass(error)) {
            return answer;
        }
        self.proxy_answers_since = None;
        let Some(command) = self.command.take() else { return Ok(()) };
        let mut offered = lock(&self.shared.offered);
        offered.proposed = None;
        if answer.is_ok() {
            offered.apply(command.change);
        }
        // The send fails if the caller no longer waits.
        let _ = command.answer.send(answer);
        Ok(())
    }

    /// Whether a change that failed with this error is asked for again. What answers in the server's place may be a gateway
    /// that never passes such a change on, so that is tried for a minute only.
    fn may_pass(&mut self, error: &Error) -> bool {
        if error.is_transient() {
            return true;
        }
        error.is_of_a_proxy() && self.proxy_answers_since.get_or_insert_with(Instant::now).elapsed() < PATIENCE
    }

    /// Stops the calls, and tells the server that this connection will not return.
    async fn leave(&mut self) {
        self.calls.stop().await;
        let (client_id, connection) = (self.shared.client_id.clone(), self.shared.connection_name());
        let request = DisconnectRequest { client_id, connection };
        match timeout(GOODBYE_TIMEOUT, self.shared.api.disconnect(&request)).await {
            Ok(Ok(_done)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the goodbye failed; the server keeps the tools for the grace"),
            Err(_elapsed) => tracing::warn!("the goodbye took too long; the server keeps the tools for the grace"),
        }
    }
}

type Asking = BoxFuture<'static, Result<(), Error>>;

/// Waits for the server's answer; forever if nothing was asked.
async fn answer_to(asking: &mut Option<Asking>) -> Result<(), Error> {
    let Some(question) = asking else { return pending().await };
    let answer = question.await;
    *asking = None;
    answer
}

/// Asks the server for a change.
fn ask(shared: &Shared, uplink: &Uplink, change: &Change) -> Asking {
    let (client_id, uplink) = (&shared.client_id, uplink.clone());
    let mut offered = lock(&shared.offered);
    let register = |tools: &[Tool], sessions: &[Option<String>]| -> Vec<ClientRequest> {
        let tools: Vec<_> = tools.iter().map(|tool| tool.definition.clone()).collect();
        let request = |session_id: &Option<String>| {
            let (client_id, session_id, tools) = (client_id.clone(), session_id.clone(), tools.clone());
            ClientRequest::Register(RegisterRequest { client_id, session_id, tools })
        };
        // Without tools there is nothing to register.
        sessions.iter().filter(|_| !tools.is_empty()).map(request).collect()
    };
    let requests = match change {
        Change::Register(tool) => {
            // A call of the tool may come before the answer does.
            offered.proposed = Some(tool.clone());
            register(std::slice::from_ref(tool), &offered.sessions)
        }
        Change::Join(session) => register(&offered.tools, std::slice::from_ref(session)),
        Change::Confirm => register(&offered.tools, &offered.sessions),
        Change::Unregister(name) => {
            let (client_id, tool_ids) = (client_id.clone(), Some(vec![shared.full_id(name)]));
            vec![ClientRequest::Unregister(UnregisterRequest { client_id, session_id: None, tool_ids })]
        }
    };
    async move {
        for request in &requests {
            uplink.send(request).await?;
        }
        Ok(())
    }
    .boxed()
}
