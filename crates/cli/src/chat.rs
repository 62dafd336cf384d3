//! `handback chat`.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `args` | what is said on the command line |
//! | `interactive` | a chat at a terminal: a prompt, commands, and what is said |
//! | `once` | a chat whose messages are known from the start |
//! | `threads` | the threads of a chat: what happens in them is shown, and what they ask is answered |
//! | `backend` | what a chat talks with |
//! | `sessions` | a session of a Handback server |
//! | `agui` | an agent that speaks AG-UI |
//! | `tools` | local commands that are offered as tools |
//! | `question` | what the user is asked |
//! | `piece` | what is shown of an answer |
//! | `layout` | how that looks |
//! | `paint` | colours and excerpts |
//! | `screen` | writes it |
//! | `prompt` | what is typed at a prompt |
//! | `lines` | what is typed elsewhere |
//! | `mode` | how the terminal treats what is typed |

mod agui;
mod args;
mod backend;
mod interactive;
mod layout;
mod lines;
mod mode;
mod once;
mod paint;
mod piece;
mod prompt;
mod question;
mod screen;
mod sessions;
mod threads;
mod tools;

use std::io::{self, IsTerminal, Read};
use std::pin::pin;

use anyhow::{Context, bail};
use handback_client::CancellationToken;
use handback_wire::session::CreateSession;

use self::agui::Agents;
use self::backend::Backend;
use self::screen::Screen;
use self::sessions::{Attached, Sessions, find_client, find_session};
use self::threads::Chat;
use crate::failure::{Interrupted, Usage};
use crate::signals::Signals;

pub(crate) use self::args::ChatArgs;

/// A message is at most so long; a longer one would not fit into a request.
const LONGEST_MESSAGE: u64 = 3 * 1024 * 1024;

pub(crate) async fn run(args: ChatArgs) -> anyhow::Result<()> {
    let message = read_message(&args.message)?;
    if args.json && message.is_none() {
        return Err(Usage("--json needs a MESSAGE".to_owned()).into());
    }
    if message.is_none() && !args.also.is_empty() {
        return Err(Usage("--also needs a MESSAGE".to_owned()).into());
    }
    if args.also.iter().any(|message| message.trim().is_empty()) {
        return Err(Usage("there is nothing to say: an --also is empty".to_owned()).into());
    }
    let messages: Vec<String> = message.into_iter().chain(args.also.iter().cloned()).collect();
    let mut signals = Signals::new()?;
    match &args.agui {
        Some(url) => with_agent(&args, url, &messages, &mut signals).await,
        None => in_session(&args, &messages, &mut signals).await,
    }
}

/// Talks with an agent, whose tools are local commands.
async fn with_agent(args: &ChatArgs, url: &str, messages: &[String], signals: &mut Signals) -> anyhow::Result<()> {
    let agents = Agents::new(url, args)?;
    let mut chat = chat(agents, args);
    let ended = talk(&mut chat, messages, args.json, signals).await;
    tokio::select! {
        () = chat.backend.close() => ended,
        _ = signals.next() => Err(Interrupted("stopped at once").into()),
    }
}

/// Talks in a session, and offers local commands as tools meanwhile.
async fn in_session(args: &ChatArgs, messages: &[String], signals: &mut Signals) -> anyhow::Result<()> {
    let api = args.server.api()?;
    let resumed = find_session(&api, args).await?;
    let (client_id, model, agent) = (find_client(args, resumed.as_ref())?, args.model.clone(), args.agent.clone());
    let mut setting = CreateSession { client_id, model, agent, ..CreateSession::default() };
    if args.attach.is_empty() {
        let session = Sessions::start(api, None, setting, resumed).await?;
        return talk(&mut chat(session, args), messages, args.json, signals).await;
    }
    let client = setting.client_id.get_or_insert_with(|| format!("chat-{:08x}", fastrand::u32(..)));
    let mut attached = Attached::new(&api, client, &args.attach).await?;
    let (tools, shutdown) = (attached.tools.clone(), CancellationToken::new());
    let mut offering = pin!(tools.run(None, shutdown.clone()));
    let chat = async {
        tokio::select! {
            ready = attached.ready() => ready?,
            _ = signals.next() => return Err(Interrupted("stopped before it began").into()),
        }
        let session = Sessions::start(api, Some(attached), setting, resumed).await?;
        talk(&mut chat(session, args), messages, args.json, signals).await
    };
    let ended = tokio::select! {
        ended = chat => ended,
        // It ends by itself only when the server refuses it for good.
        refused = &mut offering => return refused.context("the tools cannot be offered"),
    };
    shutdown.cancel();
    tokio::select! {
        left = offering => ended.and(left.map_err(Into::into)),
        _ = signals.next() => Err(Interrupted("stopped at once").into()),
    }
}

fn chat<B: Backend>(backend: B, args: &ChatArgs) -> Chat<B> {
    Chat::new(backend, Screen::new(!args.no_color, !args.json, B::CALL_STYLE), args.approval())
}

/// Says the messages; without any, the user is asked.
async fn talk<B: Backend>(
    chat: &mut Chat<B>,
    messages: &[String],
    json: bool,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    if messages.is_empty() {
        interactive::run(chat, signals).await
    } else {
        once::run(chat, messages, signals, json).await
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

#[cfg(test)]
mod tests;
