//! `handback sessions show`: a session that others talk in.

use std::collections::HashSet;
use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use futures_util::StreamExt;
use handback_client::{Api, SessionEvent, TurnEvent};
use handback_wire::session::Part;
use tokio::time::{Instant, sleep};

use super::args::is_set;
use super::layout::{AnswerDisplay, CallStyle, Chunk, Layout, Place};
use super::paint::{Ink, Paint};
use super::sessions::Translator;
use crate::connection::QueryArgs;
use crate::output::{excerpt, print, print_json};
use crate::signals::Signals;

/// How much of the input of a call that waits to be allowed is shown.
const INPUT_CHARACTERS: usize = 200;
/// How many messages are read when one is new, the newest ones: more than come at once.
const NEWEST_MESSAGES: usize = 64;
/// How long after its event a message may be stored, and how often it is looked for until then.
const STORED_WITHIN: Duration = Duration::from_secs(5);
const BETWEEN_READINGS: Duration = Duration::from_millis(100);

/// Shows the conversation of a session.
///
/// What users said begins with `>`, what the model thought with `┊`, and calls of tools have a line of their own. With
/// --json all messages are one line; with --follow as well each message is a line, when it is complete.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  handback sessions show ses_1f0c…\n  handback sessions show ses_1f0c… --follow\n  \
                        handback sessions show ses_1f0c… --json"
)]
pub(crate) struct ShowArgs {
    /// The session, as `handback sessions` lists it.
    #[arg(value_name = "ID")]
    id: String,
    /// Go on with what is said from now on, until this is stopped with Ctrl-C.
    #[arg(long)]
    follow: bool,
    /// Show no colours.
    #[arg(long, env = "NO_COLOR", hide_env_values = true, default_value = "", value_parser = is_set)]
    no_color: bool,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn show(args: ShowArgs) -> anyhow::Result<()> {
    let api = args.query.server.api()?;
    // A session that is not there is an error at once, and so is a server.
    let session = args.query.checked(api.session(&args.id).await)?;
    if args.query.json && !args.follow {
        return print_json(&api.messages(&args.id, None).await?);
    }
    let (mut conversation, mut signals) = (api.follow(&args.id), Signals::new()?);
    let place = if io::stdout().is_terminal() { Place::Terminal } else { Place::Log };
    let paint = Paint { coloured: place == Place::Terminal && !args.no_color };
    let mut shown = Shown {
        layout: Layout::new(paint, place, CallStyle::OneLine, AnswerDisplay::Always),
        translator: Translator::new(session.client_id),
        printed: HashSet::new(),
        wants_all: true,
    };
    loop {
        let event = signals.unless_stopped(conversation.next()).await.flatten().transpose()?;
        let Some(event) = event else { return shown.end() };
        match &event {
            SessionEvent::Answer(TurnEvent::Disconnected { reason }) if !args.follow => {
                shown.end()?;
                bail!("{reason}");
            }
            _ if args.query.json => {
                let printing = shown.print_complete(&api, &args.id, &event);
                let Some(printed) = signals.unless_stopped(printing).await else { return shown.end() };
                printed?;
            }
            SessionEvent::CaughtUp if !args.follow => return shown.end(),
            _ => shown.draw(event)?,
        }
    }
}

/// What is on the screen.
struct Shown {
    layout: Layout,
    translator: Translator,
    /// The ids of the messages that are printed as JSON.
    printed: HashSet<String>,
    /// Whether all messages are read next, and not only the newest.
    wants_all: bool,
}

impl Shown {
    fn draw(&mut self, event: SessionEvent) -> anyhow::Result<()> {
        match event {
            SessionEvent::Said(part) => self.said(&part),
            SessionEvent::Answer(TurnEvent::Ask(ask)) => {
                let ask = &ask.permission;
                let tool = self.translator.short_name(&ask.tool);
                let call = excerpt(&format!("{tool} {}", ask.input), INPUT_CHARACTERS);
                let hint = format!("? {call} waits to be allowed: handback approve {}", ask.id);
                self.layout.line(None, Ink::Yellow, &hint);
            }
            SessionEvent::Answer(event) => {
                let pieces = self.translator.translate(event);
                self.layout.show(1, &pieces);
            }
            SessionEvent::Completed(message) => {
                self.layout.end_line();
                if let Some(error) = &message.error {
                    self.layout.line(None, Ink::Red, &format!("✗ {}", error.reason()));
                }
            }
            _ => {}
        }
        self.flush()
    }

    /// Ends the last line.
    fn end(&mut self) -> anyhow::Result<()> {
        self.layout.end_line();
        self.flush()
    }

    /// Shows what a user said: a text, or the name of a file.
    fn said(&mut self, part: &Part) {
        let file = || format!("📎 {}", part.filename.as_deref().or(part.mime.as_deref()).unwrap_or("a file"));
        let text = part.text.clone().unwrap_or_else(file);
        for line in text.lines() {
            self.layout.line(None, Ink::Bold, &format!("> {line}"));
        }
    }

    /// Writes what is new to standard output, because all of it is the conversation.
    fn flush(&mut self) -> anyhow::Result<()> {
        let chunks = self.layout.flush().into_iter();
        let text: String = chunks.map(|(Chunk::Stdout(text) | Chunk::Stderr(text))| text).collect();
        Ok(print(&text)?)
    }

    /// Prints the messages that are complete and not printed yet, a line each.
    ///
    /// The server may store a message after its event, so the messages are read until it is among them.
    async fn print_complete(&mut self, api: &Api, session: &str, event: &SessionEvent) -> anyhow::Result<()> {
        let awaited = match event {
            SessionEvent::CaughtUp => None,
            SessionEvent::Said(part) => Some(&part.message_id),
            SessionEvent::Completed(message) => Some(&message.id),
            _ => return Ok(()),
        };
        self.wants_all |= awaited.is_none();
        let until = Instant::now() + STORED_WITHIN;
        loop {
            let newest = if self.wants_all { None } else { Some(NEWEST_MESSAGES) };
            let read = match api.messages(session, newest).await {
                Err(error) if error.is_transient() => None,
                messages => Some(messages?),
            };
            // What this reading missed, the next one finds.
            self.wants_all = read.is_none();
            for message in read.into_iter().flatten() {
                let is_complete = message.info.role == "user" || message.info.time.completed.is_some();
                if is_complete && self.printed.insert(message.info.id.clone()) {
                    print_json(&message)?;
                }
            }
            let is_done = !self.wants_all && awaited.is_none_or(|id| self.printed.contains(id));
            if is_done || Instant::now() >= until {
                return Ok(());
            }
            sleep(BETWEEN_READINGS).await;
        }
    }
}
