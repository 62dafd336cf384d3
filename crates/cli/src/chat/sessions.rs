//! A session of a Handback server, as the backend of a chat with one thread.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `attached` | the connection that offers local commands |
//! | `translator` | translates the events of a turn into pieces |

mod attached;
mod translator;

use std::collections::HashMap;
use std::future::pending;

use anyhow::anyhow;
use handback_client::{Api, Ask, Error, Turn, TurnEvent};
use handback_wire::session::{
    CreateSession, MessageWithParts, Model, OfferedTool, Permission, Prompt, Session, Tokens,
};

use self::attached::Attached;
pub(super) use self::translator::Translator;
use self::translator::short_name;
use super::args::{ChatArgs, parse_model};
use super::backend::{Backend, Event, ThreadState};
use super::paint::Ink;
use super::piece::Piece;
use super::question::{Answer, Approval, Choices, Question};
use crate::connection::word;
use crate::exit::UsageError;
use crate::output::{Table, print_json};
use crate::sessions;

/// How many sessions `/sessions` lists.
const LISTED_SESSIONS: usize = 20;

/// A session, and the turn that is under way in it.
pub(super) struct SessionBackend {
    api: Api,
    /// The local commands that are offered.
    attached: Option<Attached>,
    /// The client whose tools the model may call, the model and the agent: for new sessions and for every prompt.
    setting: CreateSession,
    approval: Approval,
    session: Session,
    /// Whether anything was said in the session, now or earlier.
    is_used: bool,
    turn: Option<Turn>,
    is_aborted: bool,
    translator: Translator,
    /// The calls of the turn that need to be allowed, by the ids of the questions.
    asks: HashMap<String, Ask>,
    /// The last message of the last turn.
    answer: Option<Box<MessageWithParts>>,
}

impl SessionBackend {
    /// Offers the local commands, and resumes a session or creates one.
    pub(super) async fn start(args: &ChatArgs) -> anyhow::Result<Self> {
        let api = args.server.api()?;
        let resumed = find_session(&api, args).await?;
        let own = resumed.as_ref().and_then(|session| session.client_id.clone());
        if let (Some(named), Some(own)) = (&args.client, &own)
            && named != own
        {
            return Err(UsageError(format!("the session is one of client {own}, not of {named}")).into());
        }
        let (client_id, model, agent) = (args.client.clone().or(own), args.model.clone(), args.agent.clone());
        let mut setting = CreateSession { client_id, model, agent, ..CreateSession::default() };
        let mut attached = None;
        if !args.attach.is_empty() {
            let client = setting.client_id.get_or_insert_with(|| format!("chat-{:08x}", fastrand::u32(..)));
            attached = Some(Attached::connect(&api, client, &args.attach).await?);
        }
        let is_used = resumed.is_some();
        let session = match resumed {
            Some(session) => Ok(session),
            None => api.start_session(setting.clone()).await,
        };
        if let (Err(_), Some(attached)) = (&session, &attached) {
            attached.tools.disconnect().await;
        }
        let session = session?;
        let (turn, is_aborted, translator, asks, answer) = Default::default();
        let approval = args.approval();
        Ok(Self { api, attached, setting, approval, session, is_used, turn, is_aborted, translator, asks, answer })
    }

    /// Deletes a session in which nothing was said.
    async fn leave_session(&self) {
        if !self.is_used {
            // A session that stays is harmless.
            let _ = self.api.delete_session(&self.session.id).await;
        }
    }

    fn translate(&mut self, event: Option<Result<TurnEvent, Error>>) -> Vec<Event> {
        let (mut events, mut cost) = (Vec::new(), Tokens::default());
        let state = match event {
            Some(Ok(TurnEvent::Done { message, tokens })) => {
                cost = tokens;
                if message.info.finish.as_deref() == Some("length") {
                    let note = "The answer is cut off: the model may not say more at once.".to_owned();
                    events.push(Event::Show(vec![Piece::Note(Ink::Yellow, note)]));
                }
                let error = message.info.error.as_ref().map(|error| anyhow!(error.reason().to_owned()));
                self.answer = Some(message);
                match error {
                    _ if self.is_aborted => ThreadState::Stopped,
                    Some(error) => ThreadState::Failed(error),
                    None => ThreadState::Idle,
                }
            }
            Some(Ok(TurnEvent::Ask(ask))) => return vec![Event::Ask(self.question(*ask))],
            Some(Ok(TurnEvent::AskClosed { id })) => return vec![Event::AskClosed(id)],
            Some(Ok(event)) => return vec![Event::Show(self.translator.translate(event))],
            Some(Err(error @ Error::GivenUp { .. })) => {
                ThreadState::Failed(anyhow!("{error}, the turn may go on without this chat"))
            }
            Some(Err(error)) => ThreadState::Failed(error.into()),
            None if self.is_aborted => ThreadState::Stopped,
            None => ThreadState::Failed(anyhow!("the turn was not begun")),
        };
        self.turn = None;
        events.push(Event::Ended(state, cost));
        events
    }

    fn question(&mut self, ask: Ask) -> Question {
        let Permission { id, tool, input, .. } = &ask.permission;
        let name = self.translator.short_name(tool);
        let choices = Choices { always: true, edit: true };
        let question = Question::about_call(id, 1, [tool, name, input.get()], choices);
        self.asks.insert(id.clone(), ask);
        question
    }

    fn model(&self) -> String {
        let Self { setting, session, .. } = self;
        match (&setting.model, &setting.agent, &session.model) {
            (Some(model), _, _) => model_name(model),
            // The session's model may come from its own agent.
            (None, Some(agent), _) if session.agent.as_ref() != Some(agent) => format!("as agent {agent} has it"),
            (None, _, Some(model)) => model_name(model),
            // The server does not name its default.
            (None, _, None) => "the server's default".to_owned(),
        }
    }
}

impl Backend for SessionBackend {
    const HELP: &'static str = "\
/tools        the tools that the model may call here
/new          go on in a new session
/sessions     the sessions of the server
/model [P/M]  show the model, or take another for what follows
/quit         leave; so does Ctrl-D
Ctrl-C stops an answer, or takes back what is typed. A line that ends with \\ goes on in the next.";
    const HAS_THREADS: bool = false;

    fn say(&mut self, _thread: usize, text: &str) -> anyhow::Result<()> {
        let CreateSession { client_id, model, agent, .. } = self.setting.clone();
        self.translator = Translator::new(self.session.client_id.clone().or_else(|| client_id.clone()));
        let prompt = Prompt { client_id, model, agent, ..Prompt::from(text) };
        self.turn = Some(match &self.attached {
            Some(attached) => attached.turn(&self.session.id, prompt)?,
            None => self.api.turn(&self.session.id, prompt),
        });
        self.is_used = true;
        self.is_aborted = false;
        self.asks.clear();
        self.answer = None;
        Ok(())
    }

    async fn interrupt(&mut self, _thread: usize) -> Result<bool, Error> {
        if let Some(turn) = &mut self.turn {
            self.is_aborted = true;
            turn.abort().await?;
        }
        Ok(true)
    }

    async fn answer(&mut self, question: &Question, answer: Answer) -> anyhow::Result<()> {
        // A session asks only whether calls may be made.
        let Answer::Call(answer) = answer else { return Ok(()) };
        match self.asks.get(&question.id) {
            // This retries while the server cannot be reached. A user sees the error at once instead and can retry.
            Some(ask) if self.approval != Approval::User => Ok(ask.answer(&answer).await?),
            _ => Ok(self.api.answer_permission(&self.session.id, &question.id, &answer).await?),
        }
    }

    async fn next(&mut self) -> (usize, Vec<Event>) {
        let Some(turn) = &mut self.turn else { return pending().await };
        let event = turn.next().await;
        (1, self.translate(event))
    }

    fn awaited(&self) -> Option<String> {
        self.turn.as_ref().map(|_| self.translator.awaited())
    }

    async fn connection_change(&mut self) -> String {
        match &mut self.attached {
            Some(attached) => attached.change().await,
            None => pending().await,
        }
    }

    async fn introduction(&mut self) -> Result<String, Error> {
        let tools = self.api.session_tools(&self.session.id).await?;
        let names = tools.iter().map(|tool| short_name(&tool.id, tool.client_id.as_deref()));
        let names: Vec<&str> = names.collect();
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
            ("/tools", _) => tools_table(self.api.session_tools(&self.session.id).await?).text().to_owned(),
            ("/sessions", _) => sessions::table(self.api.sessions(Some(LISTED_SESSIONS)).await?).text().to_owned(),
            ("/new", _) => {
                // A user sees an error at once and can retry.
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

    async fn close(&self) {
        if let Some(attached) = &self.attached {
            attached.tools.disconnect().await;
        }
    }
}

/// The session to resume. The server is always asked, so that nothing else begins if it cannot be reached.
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

fn model_name(model: &Model) -> String {
    let name = model.model_id.as_ref().or(model.id.as_ref());
    format!("{}/{}", model.provider_id, name.map_or("", String::as_str))
}

fn tools_table(tools: Vec<OfferedTool>) -> Table {
    let rows = tools.into_iter().map(|tool| {
        let place = tool.client_id.clone().unwrap_or_else(|| word(&tool.runs));
        let name = short_name(&tool.id, tool.client_id.as_deref()).to_owned();
        [name, place, word(&tool.permission), tool.description]
    });
    Table::new(["TOOL", "RUNS ON", "PERMISSION", "DESCRIPTION"], "no tools", rows)
}

#[cfg(test)]
mod tests;
