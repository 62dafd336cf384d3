//! The connection that offers local commands to a session.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use handback_client::{Api, ClientTools, Error, Options, Status};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::chat::tools::LocalTool;

/// How long it may take until the tools are there.
const READY: Duration = Duration::from_secs(30);

/// The delays between the tries to connect again: shorter than usual, since somebody is waiting.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// The tools that are offered, and how their connection stands.
#[derive(Debug, Clone)]
pub(in crate::chat) struct Attached {
    pub(in crate::chat) tools: ClientTools,
    link: watch::Receiver<Link>,
}

/// How the connection stands.
#[derive(Debug, PartialEq, Eq)]
enum Link {
    /// It was not there yet.
    Opening,
    Open,
    /// It is lost, or cannot be opened.
    Lost(String),
}

impl Attached {
    /// The client that offers the commands, once it is run.
    pub(in crate::chat) async fn new(api: &Api, client: &str, commands: &[LocalTool]) -> Result<Self, Error> {
        let (sender, link) = watch::channel(Link::Opening);
        let observer = Arc::new(move |status| match status {
            Status::Connected { .. } => _ = sender.send_replace(Link::Open),
            Status::Disconnected { reason, .. } => _ = sender.send_replace(Link::Lost(reason)),
            _ => {}
        });
        let options = Options::with(|options| {
            options.reconnect = RECONNECT;
            options.observer = observer;
        });
        let tools = ClientTools::new(api.clone(), client, options);
        for command in commands {
            tools.register(command.tool()).await?;
        }
        Ok(Self { tools, link })
    }

    /// Waits until the server has the tools.
    pub(in crate::chat) async fn ready(&mut self) -> anyhow::Result<()> {
        // The sender goes only with the client itself, whose end is seen elsewhere.
        if let Ok(Ok(_)) = timeout(READY, self.link.wait_for(|link| *link == Link::Open)).await {
            return Ok(());
        }
        match &*self.link.borrow() {
            Link::Lost(reason) => Err(anyhow!("the tools cannot be offered: {reason}")),
            _ => Err(anyhow!("the tools were not registered within {} s", READY.as_secs())),
        }
    }

    /// Waits until the connection is lost or found. It may have been lost before, during a turn.
    pub(super) async fn change(&mut self, was_lost: bool) -> String {
        match self.link.wait_for(|link| matches!(link, Link::Lost(_)) != was_lost).await.as_deref() {
            Ok(Link::Lost(reason)) => format!("{reason}; connecting again"),
            Ok(Link::Open | Link::Opening) => "connected again".to_owned(),
            // Its end is seen elsewhere.
            Err(_) => pending().await,
        }
    }
}
