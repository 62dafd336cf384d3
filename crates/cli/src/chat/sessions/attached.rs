//! The connection that offers local commands to a session.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use handback_client::{Api, ClientTools, Options, State, Status, Tool, Turn};
use handback_wire::session::Prompt;
use tokio::sync::watch;
use tokio::time::timeout;

/// How long registering the tools may take.
const READY: Duration = Duration::from_secs(30);

/// The delays between reconnects: shorter than usual, because a user is waiting.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// The offered tools, and the reason if their connection is lost.
pub(super) struct Attached {
    pub(super) tools: ClientTools,
    lost: watch::Receiver<Option<String>>,
    /// Whether the user was told that the connection is lost.
    is_told: bool,
}

impl Attached {
    /// Offers the commands, and waits until the server has them.
    pub(super) async fn connect(api: &Api, client: &str, commands: &[Tool]) -> anyhow::Result<Self> {
        let (sender, lost) = watch::channel(None);
        let options = Options::with(|options| {
            options.reconnect = RECONNECT;
            options.observer = Arc::new(move |status| match status {
                Status::Connected { .. } => _ = sender.send_replace(None),
                Status::Disconnected { reason, .. } => _ = sender.send_replace(Some(reason)),
                _ => {}
            });
        });
        let tools = ClientTools::new(api.clone(), client, options);
        for command in commands {
            tools.register(command.clone()).await?;
        }
        match timeout(READY, tools.connect(None)).await {
            Ok(connected) => connected.context("the tools cannot be offered")?,
            Err(_) => match &*lost.borrow() {
                Some(reason) => bail!("the tools cannot be offered: {reason}"),
                None => bail!("the tools were not registered within {} s", READY.as_secs()),
            },
        }
        Ok(Self { tools, lost, is_told: false })
    }

    /// Starts a turn whose calls run here. Fails if the server has refused the tools for good.
    pub(super) fn turn(&self, session: &str, prompt: Prompt) -> anyhow::Result<Turn> {
        if let State::Closed(Some(error)) = &*self.tools.state().borrow() {
            return Err(error.clone()).context("the tools cannot be offered");
        }
        Ok(self.tools.turn(session, prompt))
    }

    /// Waits until the connection is lost, or is open again after the user was told that it is lost.
    pub(super) async fn change(&mut self) -> String {
        let note = match self.lost.wait_for(|lost| lost.is_some() != self.is_told).await.as_deref() {
            Ok(Some(reason)) => format!("{reason}; connecting again"),
            Ok(None) => "connected again".to_owned(),
            // The sender is gone, so nothing changes any more.
            Err(_) => pending().await,
        };
        self.is_told = !self.is_told;
        note
    }
}
