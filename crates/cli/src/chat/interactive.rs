//! A chat at a terminal: a prompt, commands, and what is said.

use std::io;

use handback_wire::session::OfferedTool;
use tokio::sync::watch;

use super::attached::Link;
use super::conversation::{Conversation, Said, failure};
use super::layout::Ink;
use super::prompt::Prompt;
use super::{model_name, parse_model};
use crate::connection::word;
use crate::failure::Interrupted;
use crate::output::{Table, plain};
use crate::sessions;
use crate::signals::{Signals, Stop};

const HELP: &str = "\
/tools        the tools that the model may call here
/new          go on in a new session
/sessions     the sessions of the server
/model [P/M]  show the model, or take another for what follows
/quit         leave; so does Ctrl-D
Ctrl-C stops an answer, or takes back what is typed. A line that ends with \\ goes on in the next.";

/// So many sessions are listed.
const LISTED_SESSIONS: usize = 20;

/// What was typed.
#[derive(Debug, PartialEq)]
enum Typed<'a> {
    Nothing,
    Message(&'a str),
    Help,
    Tools,
    New,
    Sessions,
    Model(&'a str),
    Quit,
    Unknown(&'a str),
}

impl<'a> Typed<'a> {
    fn read(line: &'a str) -> Self {
        let line = line.trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        match first {
            "" => Self::Nothing,
            "/help" | "/?" => Self::Help,
            "/tools" => Self::Tools,
            "/new" => Self::New,
            "/sessions" => Self::Sessions,
            "/model" => Self::Model(rest.trim()),
            "/quit" | "/exit" => Self::Quit,
            // A path, or a lone slash, is no command.
            other if other.len() > 1 && other.starts_with('/') && !other[1..].contains('/') => Self::Unknown(other),
            _ => Self::Message(line),
        }
    }
}

/// Talks until the user leaves.
pub(super) async fn run(
    conversation: &mut Conversation,
    signals: &mut Signals,
    mut link: Option<watch::Receiver<Link>>,
) -> anyhow::Result<()> {
    conversation.lines.hide();
    let mut prompt = Prompt::new(conversation.screen.paint())?;
    introduce(conversation).await?;
    while let Some(typed) = next_typed(conversation, &mut prompt, signals, link.as_mut()).await? {
        match act(conversation, signals, Typed::read(&typed)).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.is::<Interrupted>() || error.is::<io::Error>() => return Err(error),
            // The next try may succeed.
            Err(error) => conversation.screen.line(Ink::Red, &format!("✗ {error:#}"))?,
        }
    }
    let session = conversation.session.id.clone();
    if conversation.leave().await {
        conversation.screen.line(Ink::Dim, &format!("To go on: handback chat --session {session}"))?;
    }
    Ok(())
}

/// What is typed next; `None` if the user leaves instead.
async fn next_typed(
    conversation: &mut Conversation,
    prompt: &mut Prompt,
    signals: &mut Signals,
    mut link: Option<&mut watch::Receiver<Link>>,
) -> anyhow::Result<Option<String>> {
    let mut was_lost = false;
    conversation.screen.aside(Ink::Bold, "\n")?;
    loop {
        tokio::select! {
            typed = prompt.next("> ", signals) => return Ok(typed?),
            note = link_change(link.as_deref_mut(), was_lost) => {
                was_lost = !was_lost;
                prompt.print(Ink::Yellow, &plain(&note))?;
            }
        }
    }
}

/// Waits until the connection that offers the tools is lost or found. It may have been lost before, during a turn.
async fn link_change(link: Option<&mut watch::Receiver<Link>>, was_lost: bool) -> String {
    if let Some(link) = link
        && let Ok(link) = link.wait_for(|link| matches!(link, Link::Lost(_)) != was_lost).await
    {
        return match &*link {
            Link::Lost(reason) => format!("{reason}; connecting again"),
            Link::Open | Link::Opening => "connected again".to_owned(),
        };
    }
    // There is none, or its end is seen elsewhere.
    std::future::pending().await
}

/// Does what was typed; says whether the chat goes on.
async fn act(conversation: &mut Conversation, signals: &mut Signals, typed: Typed<'_>) -> anyhow::Result<bool> {
    match typed {
        Typed::Nothing => {}
        Typed::Quit => return Ok(false),
        Typed::Message(text) => match conversation.say(text, signals).await? {
            Said::Stopped(Stop::Terminate) => return Ok(false),
            Said::Stopped(Stop::Interrupt) => conversation.screen.line(Ink::Yellow, "The turn was aborted.")?,
            Said::Answered(answer) => {
                if let Some(error) = failure(&answer) {
                    conversation.screen.line(Ink::Red, &format!("✗ {error}"))?;
                }
            }
        },
        Typed::Help => conversation.screen.line(Ink::Dim, HELP)?,
        Typed::New => {
            conversation.start_over().await?;
            introduce(conversation).await?;
        }
        Typed::Tools => {
            let offered = conversation.api.session_tools(&conversation.session.id).await?;
            conversation.screen.line(Ink::Dim, &offered_tools(offered).text())?;
        }
        Typed::Sessions => {
            let known = conversation.api.sessions(Some(LISTED_SESSIONS)).await?;
            conversation.screen.line(Ink::Dim, &sessions::table(known).text())?;
        }
        Typed::Model("") => {
            let model = describe_model(conversation);
            conversation.screen.line(Ink::Dim, &model)?;
        }
        Typed::Model(name) => {
            conversation.setting.model = Some(parse_model(name).map_err(anyhow::Error::msg)?);
            conversation.screen.line(Ink::Dim, &format!("{name} answers from now on."))?;
        }
        Typed::Unknown(command) => {
            conversation.screen.line(Ink::Yellow, &format!("There is no {command}; /help lists what there is."))?;
        }
    }
    Ok(true)
}

/// The first lines: where this is, and how to leave.
async fn introduce(conversation: &mut Conversation) -> anyhow::Result<()> {
    let tools = conversation.api.session_tools(&conversation.session.id).await?;
    let names: Vec<String> = tools.iter().map(|tool| short_name(tool).to_owned()).collect();
    let names = if names.is_empty() { "none; see --attach and --client".to_owned() } else { names.join(", ") };
    let session = &conversation.session;
    let text = format!(
        "session  {} · {}\nserver   {}\nmodel    {}\ntools    {names}\n/help lists commands, Ctrl-C stops an answer, \
         Ctrl-D leaves.",
        session.id,
        session.title,
        conversation.api.url(),
        describe_model(conversation),
    );
    Ok(conversation.screen.line(Ink::Dim, &text)?)
}

fn describe_model(conversation: &Conversation) -> String {
    let Conversation { setting, session, .. } = conversation;
    match (&setting.model, &setting.agent, &session.model) {
        (Some(model), _, _) => model_name(model),
        // What the session has may be its own agent's.
        (None, Some(agent), _) if session.agent.as_ref() != Some(agent) => format!("as agent {agent} has it"),
        (None, _, Some(model)) => model_name(model),
        // A server that does not say.
        (None, _, None) => "the server's default".to_owned(),
    }
}

fn offered_tools(tools: Vec<OfferedTool>) -> Table {
    let rows = tools.into_iter().map(|tool| {
        let place = tool.client_id.clone().unwrap_or_else(|| word(&tool.runs));
        [short_name(&tool).to_owned(), place, word(&tool.permission), tool.description]
    });
    Table::new(["TOOL", "RUNS ON", "PERMISSION", "DESCRIPTION"], "no tools", rows)
}

/// A tool's own name, which its client gave it.
fn short_name(tool: &OfferedTool) -> &str {
    let prefix = tool.client_id.as_ref().map(|client| format!("client_{client}_")).unwrap_or_default();
    tool.id.strip_prefix(&prefix).unwrap_or(&tool.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages() {
        for (line, expected) in [
            ("", Typed::Nothing),
            ("  \t", Typed::Nothing),
            (" hello there ", Typed::Message("hello there")),
            ("/help", Typed::Help),
            ("/model  a/b ", Typed::Model("a/b")),
            ("/model", Typed::Model("")),
            ("/exit", Typed::Quit),
            ("/halp me", Typed::Unknown("/halp")),
            ("/etc/hosts: what is that?", Typed::Message("/etc/hosts: what is that?")),
            ("/", Typed::Message("/")),
        ] {
            assert_eq!(Typed::read(line), expected, "{line}");
        }
    }
}
