//! Local commands that a chat offers as tools, as long as it lasts.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use handback_client::{Api, ClientTools, Options, Status, Tool};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::attach::command_tool;

/// How long it may take until the tools are there.
const READY: Duration = Duration::from_secs(30);

/// The delays between the tries to connect again: shorter than usual, since somebody is waiting.
const RECONNECT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// A command to offer, as it is given: `NAME=COMMAND`.
#[derive(Debug, Clone)]
pub(super) struct LocalTool {
    name: String,
    command: String,
}

impl LocalTool {
    /// Reads `NAME=COMMAND`.
    pub(super) fn parse(argument: &str) -> Result<Self, String> {
        match argument.split_once('=').map(|(name, command)| (name.trim(), command.trim())) {
            Some((name, command)) if !name.is_empty() && !command.is_empty() => {
                Ok(Self { name: name.to_owned(), command: command.to_owned() })
            }
            _ => Err("it must be NAME=COMMAND, such as 'today=date'".to_owned()),
        }
    }

    /// The tool.
    pub(super) fn tool(&self) -> Tool {
        let shell = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
        let words = shell.into_iter().chain([self.command.as_str()]).map(OsString::from);
        let description =
            format!("Runs `{}` on the user's computer; its standard input is the input as JSON", self.command);
        command_tool(self.name.clone(), description, words.collect())
    }
}

/// How the connection that offers the tools stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Link {
    /// It was not there yet.
    Opening,
    /// It is open.
    Open,
    /// It is lost, or cannot be opened.
    Lost(String),
}

/// The client that offers the tools, and how its connection stands.
pub(super) async fn client(
    api: &Api,
    client: &str,
    tools: &[LocalTool],
) -> anyhow::Result<(ClientTools, watch::Receiver<Link>)> {
    let (sender, link) = watch::channel(Link::Opening);
    let observer = Arc::new(move |status| match status {
        Status::Connected { .. } => _ = sender.send_replace(Link::Open),
        Status::Disconnected { reason, .. } => _ = sender.send_replace(Link::Lost(reason)),
        _ => {}
    });
    let offered =
        ClientTools::new(api.clone(), client, Options { reconnect: RECONNECT, observer, ..Options::default() });
    for tool in tools {
        offered.register(tool.tool()).await?;
    }
    Ok((offered, link))
}

/// Waits until the tools are there.
pub(super) async fn ready(link: &mut watch::Receiver<Link>) -> anyhow::Result<()> {
    // The sender goes only with the client itself, whose end is seen elsewhere.
    let is_open = timeout(READY, link.wait_for(|link| *link == Link::Open)).await.is_ok_and(|opened| opened.is_ok());
    if is_open {
        return Ok(());
    }
    match &*link.borrow() {
        Link::Lost(reason) => Err(anyhow!("the tools cannot be offered: {reason}")),
        _ => Err(anyhow!("the tools were not registered within {} s", READY.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_a_name_and_a_command() {
        let tool = LocalTool::parse("count = jq -r .text | wc -w").unwrap().tool().definition;
        assert_eq!(tool.id, "count");
        assert_eq!(
            tool.description,
            "Runs `jq -r .text | wc -w` on the user's computer; its standard input is the input as JSON"
        );
        assert_eq!(LocalTool::parse("env=A=1 env").unwrap().command, "A=1 env");
        for bad in ["", "date", "=date", "today=", " = "] {
            assert!(LocalTool::parse(bad).is_err(), "{bad}");
        }
    }
}
