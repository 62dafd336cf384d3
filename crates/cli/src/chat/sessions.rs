//! A session of a Handback server as the one thread of a chat.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `attached` | the connection that offers local commands |
//! | `pieces` | what of a turn is shown |

mod attached;
mod pieces;

use std::collections::HashMap;
use std::future::pending;

use anyhow::anyhow;
use handback_client::{Api, Ask, Error, Turn, TurnEvent};
use handback_wire::session::{
    CreateSession, MessageWithParts, Model, OfferedTool, Permission, Prompt, Session, Tokens,
};

use self::pieces::Pieces;
use super::args::{ChatArgs, parse_model};
use super::backend::{Backend, Event, Standing};
use super::layout::CallStyle;
use super::paint::Ink;
use super::piece::Piece;
use super::question::{Answer, Approval, Choices, Question};
use crate::connection::word;
use crate::failure::Usage;
use crate::output::{Table, print_json};
use crate::sessions;

pub(super) use self::attached::Attached;

/// So many sessions are listed.
const LISTED_SESSIONS: usize = 20;

/// A session, and the turn that goes on in it.
pub(super) struct Sessions {
    api: Api,
    /// The tools that are offered here.
    attached: Option<Attached>,
    /// What a session is made with, and what each prompt in it says: the client whose tools the model may call, the model
    /// and the agent.
    setting: CreateSession,
    session: Session,
    /// Whether something is in the session, or was before.
    is_used: bool,
    turn: Option<Turn>,
    is_aborted: bool,
    pieces: Pieces,
    /// The calls of the turn that asked to be allowed, by the ids of the asks.
    asks: HashMap<String, Ask>,
    /// The last message of the last turn.
    answer: Option<Box<MessageWithParts>>,
}

impl Sessions {
    /// Goes on with a session, or makes a new one.
    pub(super) async fn start(
        api: Api,
        attached: Option<Attached>,
        setting: CreateSession,
        resumed: Option<Session>,
    ) -> Result<Self, Error> {
        let is_used = resumed.is_some();
        let session = match resumed {
            Some(session) => session,
            None => api.create_session(&setting).await?,
        };
        let (turn, is_aborted, pieces, asks, answer) = Default::default();
        Ok(Self { api, attached, setting, session, is_used, turn, is_aborted, pieces, asks, answer })
    }

    /// Takes back a session in which nothing was said.
    async fn leave_session(&self) {
        if !self.is_used {
            // It would do no harm if it stayed.
            let _ = self.api.delete_session(&self.session.id).await;
        }
    }

    fn take(&mut self, event: Option<Result<TurnEvent, Error>>) -> Vec<Event> {
        let (mut events, mut cost) = (Vec::new(), Tokens::default());
        let standing = match event {
            Some(Ok(TurnEvent::Done { tokens, .. })) if self.is_aborted => {
                cost = tokens;
                Standing::Stopped
            }
            Some(Ok(TurnEvent::Done { message, tokens })) => {
                cost = tokens;
                if message.info.finish.as_deref() == Some("length") {
                    let note = "The answer is cut off: the model may not say more at once.".to_owned();
                    events.push(Event::Show(vec![Piece::Note(Ink::Yellow, note)]));
                }
                let error = message.info.error.as_ref().map(|error| anyhow!(error.reason().to_owned()));
                self.answer = Some(message);
                error.map_or(Standing::Idle, Standing::Failed)
            }
            Some(Ok(TurnEvent::Ask(ask))) => return vec![Event::Ask(self.question(*ask))],
            Some(Ok(TurnEvent::AskClosed { id })) => return vec![Event::AskClosed(id)],
            Some(Ok(event)) => return vec![Event::Show(self.pieces.of(event))],
            Some(Err(error @ Error::GivenUp { .. })) => {
                Standing::Failed(anyhow!("{error}, the turn may go on without this chat"))
            }
            Some(Err(error)) => Standing::Failed(error.into()),
            None if self.is_aborted => Standing::Stopped,
            None => Standing::Failed(anyhow!("the turn was not begun")),
        };
        self.turn = None;
        events.push(Event::Ended(standing, cost));
        events
    }

    fn question(&mut self, ask: Ask) -> Question {
        let Permission { id, tool, input, .. } = &ask.permission;
        let name = self.pieces.short_name(tool);
        let choices = Choices { always: true, edit: true };
        let question = Question::about_call(id, 1, [tool, name, input.get()], choices);
        self.asks.insert(id.clone(), ask);
        question
    }

    fn model(&self) -> String {
        let Self { setting, session, .. } = self;
        match (&setting.model, &setting.agent, &session.model) {
            (Some(model), _, _) => model_name(model),
            // What the session has may be its own agent's.
            (None, Some(agent), _) if session.agent.as_ref() != Some(agent) => format!("as agent {agent} has it"),
            (None, _, Some(model)) => model_name(model),
            // A server that does not say.
            (None, _, None) => "the server's default".to_owned(),
        }
    }
}

impl Backend for Sessions {
    const HELP: &'static str = "\
/tools        the tools that the model may call here
/new          go on in a new session
/sessions     the sessions of the server
/model [P/M]  show the model, or take another for what follows
/quit         leave; so does Ctrl-D
Ctrl-C stops an answer, or takes back what is typed. A line that ends with \\ goes on in the next.";
    const HAS_THREADS: bool = false;
    const CALL_STYLE: CallStyle = CallStyle::OneLine;

    fn say(&mut self, _thread: usize, text: &str) -> anyhow::Result<()> {
        let CreateSession { client_id, model, agent, .. } = self.setting.clone();
        self.pieces = Pieces::new(self.session.client_id.as_deref().or(client_id.as_deref()));
        let prompt = Prompt { client_id, model, agent, ..Prompt::from(text) };
        self.turn = Some(match &self.attached {
            Some(attached) => attached.tools.turn(&self.session.id, prompt),
            None => self.api.turn(&self.session.id, prompt),
        });
        self.is_used = true;
        self.is_aborted = false;
        self.asks.clear();
        self.answer = None;
        Ok(())
    }

    /// There is no command for it.
    fn retry(&mut self, _thread: usize) -> anyhow::Result<()> {
        Ok(())
    }

    async fn interrupt(&mut self, _thread: usize) -> Result<bool, Error> {
        if let Some(turn) = &mut self.turn {
            self.is_aborted = true;
            turn.abort().await?;
        }
        Ok(true)
    }

    async fn answer(&mut self, question: &Question, answer: Answer, by: Approval) -> anyhow::Result<()> {
        // In a session nothing is asked but whether calls may be made.
        let Answer::Call(answer) = answer else { return Ok(()) };
        match self.asks.get(&question.id) {
            // It is tried again while the server cannot be reached; a user is told so instead, and can try again.
            Some(ask) if by != Approval::User => Ok(ask.answer(&answer).await?),
            _ => Ok(self.api.answer_permission(&self.session.id, &question.id, &answer).await?),
        }
    }

    async fn next(&mut self) -> (usize, Vec<Event>) {
        let Some(turn) = &mut self.turn else { return pending().await };
        let event = turn.next().await;
        (1, self.take(event))
    }

    fn awaited(&self) -> Option<String> {
        self.turn.as_ref().map(|_| self.pieces.awaited())
    }

    async fn connection_change(&mut self, was_lost: bool) -> String {
        match &mut self.attached {
            Some(attached) => attached.change(was_lost).await,
            None => pending().await,
        }
    }

    async fn introduction(&mut self) -> Result<String, Error> {
        let tools = self.api.session_tools(&self.session.id).await?;
        let names: Vec<&str> = tools.iter().map(short_name).collect();
        let names = if names.is_empty() { "none; see --attach and --client".to_owned() } else { names.join(", ") };
        let Session { id, title, .. } = &self.session;
        let (server, model) = (self.api.url(), self.model());
        Ok(format!(
            "session  {id} · {title}\nserver   {server}\nmodel    {model}\ntools    {names}\n\
             /help lists commands, Ctrl-C stops an answer, Ctrl-D leaves."
        ))
    }

    async fn command(&mut self, command: &str, argument: &str) -> anyhow::Result<Option<String>> {
        Ok(Some(match (command, argument) {
            ("/tools", _) => tools_table(self.api.session_tools(&self.session.id).await?).text(),
            ("/sessions", _) => sessions::table(self.api.sessions(Some(LISTED_SESSIONS)).await?).text(),
            ("/new", _) => {
                let session = self.api.create_session(&self.setting).await?;
                self.leave_session().await;
                self.session = session;
                self.is_used = false;
                self.introduction().await?
            }
            ("/model", "") => self.model(),
            ("/model", name) => {
                self.setting.model = Some(parse_model(name).map_err(anyhow::Error::msg)?);
                format!("{name} answers from now on.")
            }
            _ => return Ok(None),
        }))
    }

    async fn leave(&mut self) -> Option<String> {
        self.leave_session().await;
        self.is_used.then(|| format!("To go on: handback chat --session {}", self.session.id))
    }

    fn print_json(&self) -> anyhow::Result<()> {
        self.answer.as_ref().map_or(Ok(()), print_json)
    }
}

/// The session to go on with. In any case the server is spoken to: if it is not there, nothing else has to begin.
pub(super) async fn find_session(api: &Api, args: &ChatArgs) -> anyhow::Result<Option<Session>> {
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
pub(super) fn find_client(args: &ChatArgs, resumed: Option<&Session>) -> Result<Option<String>, Usage> {
    let own = resumed.and_then(|session| session.client_id.clone());
    match (&args.client, own) {
        (Some(named), Some(own)) if *named != own => {
            Err(Usage(format!("the session is one of client {own}, not of {named}")))
        }
        (named, own) => Ok(named.clone().or(own)),
    }
}

fn model_name(model: &Model) -> String {
    let name = model.model_id.as_ref().or(model.id.as_ref());
    format!("{}/{}", model.provider_id, name.map_or("", String::as_str))
}

fn tools_table(tools: Vec<OfferedTool>) -> Table {
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
mod tests;
