//! `handback chat`.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `args` | the command line |
//! | `interactive` | a chat at a terminal: a prompt for messages and commands |
//! | `once` | a chat whose messages are known from the start |
//! | `show` | a session that others talk in |
//! | `threads` | the threads of a chat, and the questions that they ask |
//! | `backend` | what a chat talks with |
//! | `sessions` | a session of a Handback server, as a backend |
//! | `agui` | an agent that speaks AG-UI, as a backend |
//! | `question` | a question to the user |
//! | `piece` | a piece of an answer, as it is shown |
//! | `layout` | how the pieces look |
//! | `paint` | colours and excerpts |
//! | `screen` | writes to the terminal |
//! | `prompt` | reads messages, with a line editor |
//! | `keyboard` | reads lines while no prompt is open, and sets the mode of the terminal |

mod agui;
mod args;
mod backend;
mod interactive;
mod keyboard;
mod layout;
mod once;
mod paint;
mod piece;
mod prompt;
mod question;
mod screen;
mod sessions;
mod show;
mod threads;

use std::io::{self, IsTerminal, Read};

use anyhow::{Context, bail};

use self::agui::AgentBackend;
use self::backend::Backend;
use self::screen::Screen;
use self::sessions::SessionBackend;
use self::threads::Chat;
use crate::exit::{Interrupted, UsageError};
use crate::signals::Signals;

pub(crate) use self::args::ChatArgs;
pub(crate) use self::show::{ShowArgs, show};

/// The longest message, in bytes; a longer one would not fit into a request.
const LONGEST_MESSAGE: u64 = 3 * 1024 * 1024;

pub(crate) async fn run(args: ChatArgs) -> anyhow::Result<()> {
    let message = read_message(&args.message)?;
    if args.json && message.is_none() {
        return Err(UsageError("--json needs a MESSAGE".to_owned()).into());
    }
    if message.is_none() && !args.also.is_empty() {
        return Err(UsageError("--also needs a MESSAGE".to_owned()).into());
    }
    if args.also.iter().any(|message| message.trim().is_empty()) {
        return Err(UsageError("there is nothing to say: an --also is empty".to_owned()).into());
    }
    let messages: Vec<String> = message.into_iter().chain(args.also.iter().cloned()).collect();
    let mut signals = Signals::new()?;
    match &args.agui {
        Some(url) => talk(AgentBackend::new(url, &args)?, &args, &messages, &mut signals).await,
        None => {
            let backend = tokio::select! {
                started = SessionBackend::start(&args) => started?,
                _ = signals.next() => return Err(Interrupted("stopped before it began").into()),
            };
            talk(backend, &args, &messages, &mut signals).await
        }
    }
}

/// Says the messages, or lets the user type if there are none.
async fn talk<B: Backend>(
    backend: B,
    args: &ChatArgs,
    messages: &[String],
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let mut chat = Chat::new(backend, Screen::new(args), args.approval());
    let ended = match messages {
        [] => interactive::run(&mut chat, signals).await,
        messages => once::run(&mut chat, messages, signals).await,
    };
    tokio::select! {
        () = chat.backend.close() => ended,
        _ = signals.next() => Err(Interrupted("stopped at once").into()),
    }
}

/// The message of the command line or of standard input; `None` if the user is to type one.
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
        return Err(UsageError("there is nothing to say: the message is empty".to_owned()).into());
    }
    Ok(Some(message))
}

/// Reads the message from standard input.
fn read_input() -> anyhow::Result<String> {
    let mut text = String::new();
    let read = io::stdin().take(LONGEST_MESSAGE + 1).read_to_string(&mut text);
    let length = read.context("cannot read the message from standard input")?;
    if u64::try_from(length)? > LONGEST_MESSAGE {
        bail!("the message is larger than {LONGEST_MESSAGE} bytes");
    }
    Ok(text.trim_end().to_owned())
}

/// Joins the words, with the standard input in place of each `-`, on lines of its own.
fn compose(words: &[String], read: &str) -> String {
    let said: Vec<String> = words.split(|word| word == "-").map(|words| words.join(" ")).collect();
    said.join(&format!("\n{read}\n")).trim_matches('\n').to_owned()
}

#[cfg(test)]
mod tests;
