//! `handback chat`.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `interactive` | a chat at a terminal: a prompt, commands, and what is said |
//! | `conversation` | a session, and how something is said in it |
//! | `turn` | one turn, from what is said until it is answered |
//! | `pieces` | what of a turn is shown |
//! | `layout` | how that looks |
//! | `screen` | writes it |
//! | `question` | asks whether a call may be made |
//! | `prompt` | what is typed at a prompt |
//! | `lines` | what is typed elsewhere |
//! | `mode` | how the terminal treats what is typed |
//! | `attached` | local commands that are offered as tools |
//! | `agui` | all of that with an agent that speaks AG-UI |

mod agui;
mod attached;
mod conversation;
mod interactive;
mod layout;
mod lines;
mod mode;
mod pieces;
mod prompt;
mod question;
mod screen;
mod turn;

use std::io::{self, IsTerminal, Read};
use std::pin::pin;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use handback_client::{Api, CancellationToken, ClientTools};
use handback_wire::session::{Model, Session};
use tokio::sync::watch;

use self::attached::{Link, LocalTool};
use self::conversation::{Conversation, Said, Setting};
use self::screen::Screen;
use self::turn::Approval;
use crate::connection::ServerArgs;
use crate::failure::{Interrupted, Usage};
use crate::output::print_json;
use crate::signals::Signals;

/// A message is at most so long; a longer one would not fit into a request.
const LONGEST_MESSAGE: u64 = 3 * 1024 * 1024;

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
    message: Vec<String>,
    /// Go on with this session.
    #[arg(long, value_name = "ID", conflicts_with = "resume")]
    session: Option<String>,
    /// Go on with the session that was used last, of the client if one is named.
    #[arg(long = "continue")]
    resume: bool,
    /// The model; the session, its agent or the server has a default.
    #[arg(long, value_name = "PROVIDER/MODEL", value_parser = parse_model)]
    model: Option<Model>,
    /// The agent: instructions and permissions that the server has under this name.
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The client whose tools the model may call; made up for --attach without it.
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Offer a local command as a tool; may be given several times.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = LocalTool::parse)]
    attach: Vec<LocalTool>,
    /// Talk with the agent at this URL, which speaks AG-UI. Of a URL …/api/v1/rooms/ROOM it is the agent of that room, with
    /// threads that the server keeps.
    #[arg(long, value_name = "URL", conflicts_with_all = ["session", "resume", "model", "agent", "client"])]
    agui: Option<String>,
    /// Say this as well, at the same time and in a thread of its own; may be given several times.
    #[arg(long, value_name = "MESSAGE", requires = "agui")]
    also: Vec<String>,
    /// Tell the agent's server something more, such as model=demo/scripted; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", requires = "agui", value_parser = agui::Property::parse)]
    forward: Vec<agui::Property>,
    /// Allow every call that asks for it.
    #[arg(long)]
    yes: bool,
    /// Print the last message of the answer as JSON, for scripts; with --agui all messages of each thread, on a line each.
    #[arg(long)]
    json: bool,
    /// Show no colours.
    #[arg(long, env = "NO_COLOR", hide_env_values = true, default_value = "",
        value_parser = is_set)]
    no_color: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl ChatArgs {
    /// Who decides about calls that ask for it.
    fn approval(&self) -> Approval {
        if self.yes {
            Approval::Allow
        } else if io::stdin().is_terminal() && io::stderr().is_terminal() {
            Approval::User
        } else {
            Approval::Reject
        }
    }
}

/// What is set to anything is set, whatever it says; that is how this variable is used.
fn is_set(value: &str) -> Result<bool, std::convert::Infallible> {
    Ok(!value.is_empty())
}

fn parse_model(name: &str) -> Result<Model, String> {
    match name.split_once('/') {
        Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
            Ok(Model { provider_id: provider.to_owned(), model_id: Some(model.to_owned()), id: None })
        }
        _ => Err("it must be PROVIDER/MODEL, such as demo/scripted".to_owned()),
    }
}

fn model_name(model: &Model) -> String {
    let name = model.model_id.as_ref().or(model.id.as_ref());
    format!("{}/{}", model.provider_id, name.map_or("", String::as_str))
}

pub(crate) async fn run(args: ChatArgs) -> anyhow::Result<()> {
    let message = read_message(&args.message)?;
    if args.json && message.is_none() {
        return Err(Usage("--json needs a MESSAGE".to_owned()).into());
    }
    if let Some(url) = args.agui.clone() {
        return agui::run(args, &url, message).await;
    }
    let mut signals = Signals::new()?;
    let api = args.server.api()?;
    let resumed = find_session(&api, &args).await?;
    let client = find_client(&args, resumed.as_ref())?;
    let chat = Chat { args, api, client, resumed, message };
    if chat.args.attach.is_empty() {
        chat.talk(&mut signals, None, None).await
    } else {
        chat.with_tools(&mut signals).await
    }
}

/// A chat that is about to begin.
struct Chat {
    args: ChatArgs,
    api: Api,
    client: Option<String>,
    resumed: Option<Session>,
    /// All that is to be said; without it the user is asked.
    message: Option<String>,
}

impl Chat {
    /// Talks, and offers local commands as tools meanwhile.
    async fn with_tools(mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let client = self.client.get_or_insert_with(|| format!("chat-{:08x}", fastrand::u32(..)));
        let (tools, mut link) = attached::client(&self.api, client, &self.args.attach).await?;
        let shutdown = CancellationToken::new();
        let mut attached = pin!(tools.run(None, shutdown.clone()));
        let chat = async {
            tokio::select! {
                ready = attached::ready(&mut link) => ready?,
                _ = signals.next() => return Err(Interrupted("stopped before it began").into()),
            }
            self.talk(signals, Some(tools.clone()), Some(link)).await
        };
        let ended = tokio::select! {
            ended = chat => ended,
            // It ends by itself only when the server refuses it for good.
            refused = &mut attached => return refused.context("the tools cannot be offered"),
        };
        shutdown.cancel();
        tokio::select! {
            left = attached => ended.and(left.map_err(Into::into)),
            _ = signals.next() => Err(Interrupted("stopped at once").into()),
        }
    }

    async fn talk(
        self,
        signals: &mut Signals,
        tools: Option<ClientTools>,
        link: Option<watch::Receiver<Link>>,
    ) -> anyhow::Result<()> {
        let args = self.args;
        let approval = args.approval();
        let screen = Screen::new(io::stderr().is_terminal() && !args.no_color, !args.json);
        let setting = Setting { client: self.client, model: args.model, agent: args.agent };
        let mut conversation = Conversation::start(self.api, tools, setting, self.resumed, screen, approval).await?;
        let Some(message) = self.message else {
            return interactive::run(&mut conversation, signals, link).await;
        };
        let answer = match conversation.say(&message, signals).await? {
            Said::Answered(answer) => answer,
            Said::Stopped(_) => return Err(Interrupted("the turn was aborted").into()),
        };
        if args.json {
            print_json(&answer)?;
        }
        conversation::failure(&answer).map_or(Ok(()), |error| Err(anyhow!(error)))
    }
}

/// What is to be said, if that is known from the start: the arguments, or standard input.
fn read_message(words: &[String]) -> anyhow::Result<Option<String>> {
    if words.is_empty() && io::stdin().is_terminal() {
        return Ok(None);
    }
    let message = match words {
        [] => read_input()?,
        words if words.iter().any(|word| word == "-") => compose(words, &read_input()?),
        words => words.join(" "),
    };
    if message.trim().is_empty() {
        return Err(Usage("there is nothing to say: the message is empty".to_owned()).into());
    }
    Ok(Some(message))
}

fn read_input() -> anyhow::Result<String> {
    let mut text = String::new();
    let read = io::stdin().take(LONGEST_MESSAGE + 1).read_to_string(&mut text);
    let length = read.context("cannot read the message from standard input")?;
    if u64::try_from(length)? > LONGEST_MESSAGE {
        bail!("the message is larger than {LONGEST_MESSAGE} bytes");
    }
    Ok(text.trim_end().to_owned())
}

/// The words, with what was read in place of each `-`, on lines of its own.
fn compose(words: &[String], read: &str) -> String {
    let said: Vec<String> = words.split(|word| word == "-").map(|words| words.join(" ")).collect();
    said.join(&format!("\n{read}\n")).trim_matches('\n').to_owned()
}

/// The session to go on with. In any case the server is spoken to: if it is not there, nothing else has to begin.
async fn find_session(api: &Api, args: &ChatArgs) -> anyhow::Result<Option<Session>> {
    if let Some(id) = &args.session {
        return Ok(Some(api.session(id).await?));
    }
    let limit = if args.resume && args.client.is_some() { None } else { Some(1) };
    let sessions = api.sessions(limit).await?;
    if !args.resume {
        return Ok(None);
    }
    let is_wanted = |session: &Session| args.client.is_none() || session.client_id == args.client;
    let last = sessions.into_iter().find(is_wanted);
    last.map(Some).ok_or_else(|| anyhow!("there is no session to go on with"))
}

/// The client whose tools are used: the one that is named, or the session's own.
fn find_client(args: &ChatArgs, resumed: Option<&Session>) -> anyhow::Result<Option<String>> {
    let own = resumed.and_then(|session| session.client_id.clone());
    match (&args.client, own) {
        (Some(named), Some(own)) if *named != own => {
            Err(Usage(format!("the session is one of client {own}, not of {named}")).into())
        }
        (named, own) => Ok(named.clone().or(own)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_stands_for_standard_input() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(compose(&words(&["-"]), "a\nb"), "a\nb");
        assert_eq!(compose(&words(&["Say", "this:", "-"]), "a\nb"), "Say this:\na\nb");
        assert_eq!(compose(&words(&["one", "-", "two"]), "a"), "one\na\ntwo");
    }

    #[test]
    fn a_model_is_a_provider_and_a_name_that_may_have_slashes() {
        let model = parse_model("openrouter/meta/llama-4").unwrap();
        assert_eq!((model.provider_id.as_str(), model.model_id.as_deref()), ("openrouter", Some("meta/llama-4")));
        assert_eq!(model_name(&model), "openrouter/meta/llama-4");
        for bad in ["", "scripted", "/scripted", "demo/"] {
            assert!(parse_model(bad).is_err(), "{bad}");
        }
    }
}
