//! `handback chat --agui`: a front end of AG-UI in a terminal.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `address` | where the agent is |
//! | `interactive` | a talk at a terminal: a prompt, commands, and what is said |
//! | `talk` | threads that go on at the same time |
//! | `thread` | a conversation, and the run that goes on in it |
//! | `elder` | servers from before AG-UI 1.0 |
//! | `usage` | what the runs of a thread cost |
//! | `ask` | what the agent must know before it goes on |
//! | `tools` | local commands as the tools of the front end |
//! | `pieces` | what of a conversation is new |
//! | `page` | how that looks |
//! | `screen` | writes it |

mod address;
mod ask;
mod elder;
mod interactive;
mod page;
mod pieces;
mod screen;
mod talk;
mod thread;
mod tools;
mod usage;

use std::io::{self, IsTerminal};

use anyhow::anyhow;
use handback_client::agui::{RunOptions, messages};
use serde_json::Value;

use self::address::Address;
use self::screen::Screen;
use self::talk::{Event, Listening, Talk};
use self::thread::Standing;
use self::tools::Commands;
use super::ChatArgs;
use super::layout::{Ink, excerpt};
use crate::failure::{Interrupted, Usage};
use crate::output::{plain, print, print_json};
use crate::signals::Signals;

/// So much of a message is shown, where it tells threads apart.
const TITLE_CHARACTERS: usize = 100;

/// A property for the server, as it is given: `NAME=VALUE`.
#[derive(Debug, Clone)]
pub(super) struct Property {
    name: String,
    value: Value,
}

impl Property {
    /// Reads `NAME=VALUE`; a value that is not JSON is a text.
    pub(super) fn parse(argument: &str) -> Result<Self, String> {
        match argument.split_once('=').map(|(name, value)| (name.trim(), value)) {
            Some((name, value)) if !name.is_empty() => Ok(Self {
                name: name.to_owned(),
                value: serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned())),
            }),
            _ => Err("it must be NAME=VALUE, such as 'model=demo/scripted'".to_owned()),
        }
    }
}

/// Talks with the agent at `url`: says all messages at once, each in a thread of its own, or else asks the user.
pub(super) async fn run(args: ChatArgs, url: &str, message: Option<String>) -> anyhow::Result<()> {
    if message.is_none() && !args.also.is_empty() {
        return Err(Usage("--also needs a MESSAGE".to_owned()).into());
    }
    if args.also.iter().any(|message| message.trim().is_empty()) {
        return Err(Usage("there is nothing to say: an --also is empty".to_owned()).into());
    }
    let mut signals = Signals::new()?;
    let said: Vec<String> = message.into_iter().chain(args.also.iter().cloned()).collect();
    let (approval, address) = (args.approval(), Address::find(url, &args.server)?);
    let properties = args.forward.into_iter().map(|Property { name, value }| (name, value));
    let options = RunOptions { forwarded_props: Value::Object(properties.collect()), ..RunOptions::default() };
    let screen = Screen::new(io::stderr().is_terminal() && !args.no_color, !args.json);
    let mut talk = Talk::new(address, Commands::new(args.attach), options, approval, screen);
    let ended = match said.as_slice() {
        [] => interactive::run(&mut talk, &mut signals).await,
        said => say_all(&mut talk, said, &mut signals, args.json).await,
    };
    tokio::select! {
        () = talk.close() => ended,
        _ = signals.next() => Err(Interrupted("stopped at once").into()),
    }
}

/// Says all messages at once, and prints the answers in their order.
async fn say_all(talk: &mut Talk, said: &[String], signals: &mut Signals, json: bool) -> anyhow::Result<()> {
    let is_shared = said.len() > 1;
    for _ in said {
        talk.open()?;
    }
    for (index, text) in said.iter().enumerate() {
        if is_shared {
            let title = format!("> {}", excerpt(text, TITLE_CHARACTERS));
            talk.screen.line(Some(index + 1), Ink::Dim, &title)?;
        }
        talk.say(index + 1, text)?;
    }
    // At a terminal they are shown line by line as they come.
    let prints_answers = is_shared && !json && !io::stdout().is_terminal();
    let (mut printed, mut is_stopped) = (0, false);
    while talk.is_busy() {
        match talk.next(signals, Listening::WhenAsked).await? {
            Event::Stop(_) if is_stopped => return Err(Interrupted("stopped at once").into()),
            Event::Stop(_) => {
                is_stopped = true;
                talk.cancel_all()?;
            }
            Event::Ended(number) if is_shared => tell_failure(talk, number)?,
            Event::Ended(_) | Event::Typed(_) => {}
        }
        while prints_answers && printed < said.len() && !talk.thread(printed + 1).is_busy() {
            printed += 1;
            print_answer(printed, &talk.thread(printed).take_answer())?;
        }
    }
    if is_stopped {
        return Err(Interrupted("the turn was aborted").into());
    }
    if json {
        for (_, thread) in talk.threads() {
            print_json(&messages(&thread.conversation()))?;
        }
    }
    outcome(talk)
}

/// Answers are on lines of their own, with one between them.
fn print_answer(number: usize, answer: &str) -> io::Result<()> {
    let between = if number > 1 { "\n" } else { "" };
    let end = if answer.is_empty() || answer.ends_with('\n') { "" } else { "\n" };
    print(&format!("{between}{}{end}", plain(answer)))
}

/// Where there are several threads, what went wrong is said when it does.
fn tell_failure(talk: &mut Talk, number: usize) -> anyhow::Result<()> {
    if let Standing::Failed(error) = &talk.thread(number).standing {
        let text = format!("✗ {error:#}");
        talk.screen.line(Some(number), Ink::Red, &text)?;
    }
    Ok(())
}

/// An error if any thread has failed.
fn outcome(talk: &mut Talk) -> anyhow::Result<()> {
    let all = talk.threads().len();
    let mut failures = Vec::new();
    for number in 1..=all {
        if let Standing::Failed(error) = std::mem::replace(&mut talk.thread(number).standing, Standing::Idle) {
            failures.push(error);
        }
    }
    match (failures.pop(), failures.len() + 1) {
        (None, _) => Ok(()),
        (Some(error), _) if all == 1 => Err(error),
        (Some(_), failed) => Err(anyhow!("{failed} of {all} answers failed")),
    }
}
