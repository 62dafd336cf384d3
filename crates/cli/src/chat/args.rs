//! The arguments of `handback chat`.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use clap::Args;
use handback_client::Tool;
use handback_wire::session::Model;
use serde_json::Value;

use super::question::Approval;
use crate::attach::command_tool;
use crate::connection::ServerArgs;

/// Talks with a model that may call the tools of a client.
///
/// In a terminal it is a conversation. With a MESSAGE, or with one on standard input, it says that and exits: the answer
/// is on standard output, all else on standard error, and the exit code is 1 if the answer ended with an error.
///
/// Commands given with --attach are tools that run here, as with `handback attach`: for each call the command is
/// started anew, with the input as JSON on its standard input, and what it prints is the tool's output.
///
/// With --agui it talks with an agent of any server that speaks AG-UI, and the commands are the tools of this front end.
/// HANDBACK_TOKEN is then sent only if that is the server that --url names; a --token is sent in any case.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback chat\n  \
                        handback chat --attach 'today=date' 'what day is today?'\n  \
                        handback chat --attach 'count=jq -r .text | wc -w' --model openai/gpt-5-mini\n  \
                        handback chat 'Summarise this:' - < notes.txt > summary.txt\n  \
                        handback chat --continue --client laptop\n  \
                        handback chat --agui http://127.0.0.1:4096/agui --attach 'today=date'\n  \
                        handback chat --agui http://127.0.0.1:4096/agui/default 'what day is today?' --also 'who are you?'")]
pub(crate) struct ChatArgs {
    /// What to say; `-` stands for what is on standard input.
    #[arg(value_name = "MESSAGE")]
    pub(super) message: Vec<String>,
    /// Go on with this session.
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    pub(super) session: Option<String>,
    /// Go on with the session that was used last, of the client if one is named.
    #[arg(long = "continue")]
    pub(super) resume: bool,
    /// The model; the session, its agent or the server has a default.
    #[arg(long, value_name = "PROVIDER/MODEL", value_parser = parse_model)]
    pub(super) model: Option<Model>,
    /// The agent: instructions and permissions that the server has under this name.
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    /// The client whose tools the model may call; made up for --attach without it.
    #[arg(long, value_name = "ID")]
    pub(super) client: Option<String>,
    /// Offer a local command as a tool; may be given several times.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = parse_tool)]
    pub(super) attach: Vec<Tool>,
    /// Talk with the agent at this URL, which speaks AG-UI. Of a URL …/api/v1/rooms/ROOM it is the agent of that room, with
    /// threads that the server keeps.
    #[arg(long, value_name = "URL", conflicts_with_all = ["session", "resume", "model", "agent", "client"])]
    pub(super) agui: Option<String>,
    /// Say this as well, at the same time and in a thread of its own; may be given several times.
    #[arg(long, value_name = "MESSAGE", requires = "agui")]
    pub(super) also: Vec<String>,
    /// Tell the agent's server something more, such as model=demo/scripted; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", requires = "agui", value_parser = parse_property)]
    pub(super) forward: Vec<(String, Value)>,
    /// Allow every call that asks for it.
    #[arg(long)]
    pub(super) yes: bool,
    /// Print the last message of the answer as JSON, for scripts; with --agui all messages of each thread, on a line each.
    #[arg(long)]
    pub(super) json: bool,
    /// Show no colours.
    #[arg(long, env = "NO_COLOR", hide_env_values = true, default_value = "",
        value_parser = is_set)]
    pub(super) no_color: bool,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

impl ChatArgs {
    /// Who decides about calls that need to be allowed.
    pub(super) fn approval(&self) -> Approval {
        if self.yes {
            Approval::Allow
        } else if io::stdin().is_terminal() && io::stderr().is_terminal() {
            Approval::User
        } else {
            Approval::Reject
        }
    }
}

/// Parses `NAME=COMMAND`, a tool that runs the command in a shell.
fn parse_tool(argument: &str) -> Result<Tool, String> {
    match argument.split_once('=').map(|(name, command)| (name.trim(), command.trim())) {
        Some((name, command)) if !name.is_empty() && !command.is_empty() => {
            let shell = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
            let words = shell.into_iter().chain([command]).map(OsString::from).collect();
            let description =
                format!("Runs `{command}` on the user's computer; its standard input is the input as JSON");
            Ok(command_tool(name.to_owned(), description, words))
        }
        _ => Err("it must be NAME=COMMAND, such as 'today=date'".to_owned()),
    }
}

/// Parses `NAME=VALUE`, a property for the agent's server; a value that is not JSON is a text.
fn parse_property(argument: &str) -> Result<(String, Value), String> {
    match argument.split_once('=').map(|(name, value)| (name.trim(), value)) {
        Some((name, value)) if !name.is_empty() => {
            Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| value.into())))
        }
        _ => Err("it must be NAME=VALUE, such as 'model=demo/scripted'".to_owned()),
    }
}

/// Any value of `NO_COLOR` but the empty one turns colours off, as is usual for this variable.
pub(super) fn is_set(value: &str) -> Result<bool, std::convert::Infallible> {
    Ok(!value.is_empty())
}

/// Parses `PROVIDER/MODEL`.
pub(super) fn parse_model(name: &str) -> Result<Model, String> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(Model { provider_id: provider.to_owned(), model_id: Some(model.to_owned()), id: None })
        }
        _ => Err("it must be PROVIDER/MODEL, such as demo/scripted".to_owned()),
    }
}

#[cfg(test)]
mod tests;
