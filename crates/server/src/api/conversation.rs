//! What the protocols have in common by which pages talk to a session. A protocol decodes a request into a
//! [`PageInput`], [`converse`] finds out what is to be done for it and does it, and an [`Encoder`] writes what comes of it.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, stream};
use handback_core::Hub;
use handback_core::events::TurnEvent;
use handback_core::id::{CallId, ClientId, ConnectionName, MessageId, PermissionId, SessionId, ToolName};
use handback_core::sessions::{
    Audience, Earlier, Manners, NewSession, NotPlanned, PageRequest, Playback, Said, SessionError,
};
use handback_core::store::{Answer, Effect, Message, ModelRef, PartBody, Session, ToolResult, ToolSpec};
use handback_core::tools::Offered;
use handback_wire::error::ErrorCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Sleep;

use super::session::must_own;
use crate::app::App;
use crate::auth::Principal;
use crate::problem::Problem;
use crate::transport::sse::{self, Next};

/// Messages of a conversation that a page may send along.
const MESSAGES: usize = 10_000;

/// What a page sends, whatever its protocol.
pub(super) struct PageInput {
    pub(super) session: SessionId,
    /// The client whose tools the session has.
    pub(super) client: Option<ClientId>,
    /// The client's connection that it comes from.
    pub(super) connection: Option<ConnectionName>,
    pub(super) agent: Option<String>,
    pub(super) model: Option<ModelRef>,
    pub(super) page_tools: Vec<Arc<ToolSpec>>,
    /// What the model is to know besides the agent's instructions.
    pub(super) instructions: Vec<String>,
    /// The conversation before what is new.
    pub(super) history: History,
    pub(super) said: Vec<Said>,
    pub(super) replaces: bool,
    pub(super) results: Vec<(CallId, ToolResult)>,
    pub(super) has_new_results: bool,
    pub(super) shown: Option<Vec<CallId>>,
    pub(super) ended: Vec<CallId>,
    pub(super) answers: Vec<(PermissionId, Answer)>,
}

impl PageInput {
    /// A page of a session that sends nothing so far.
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            client: None,
            connection: None,
            agent: None,
            model: None,
            page_tools: Vec::new(),
            instructions: Vec::new(),
            history: History::none(),
            said: Vec::new(),
            replaces: false,
            results: Vec::new(),
            has_new_results: true,
            shown: None,
            ended: Vec::new(),
            answers: Vec::new(),
        }
    }
}

/// What a protocol wants of the sessions that it shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Face {
    pub(super) manners: Manners,
    /// Whether whoever follows a turn leaves when there is nothing but asks.
    pub(super) yields_asks: bool,
    /// Whether it can run the tools of frontends.
    pub(super) has_frontend: bool,
    /// Whether a session is made when there is none.
    pub(super) makes_sessions: bool,
}

/// An earlier conversation. It is read as a whole only where the server does not know it.
pub(super) struct History {
    /// Its first message, if that has a name.
    pub(super) first: Option<MessageId>,
    pub(super) is_empty: bool,
    /// How many bytes it has.
    pub(super) bytes: usize,
    pub(super) read: ReadHistory,
}

/// Reads a conversation; an error says which message is wrong.
type ReadHistory = Box<dyn FnOnce(&App) -> Result<Vec<Earlier>, Problem> + Send>;

/// Why a request was not acted on.
pub(super) enum Failed {
    /// It is answered with this.
    Problem(Problem),
    /// It cannot be planned; its protocol may have its own way to say so.
    NotPlanned(NotPlanned),
}

impl<E: Into<Problem>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

impl Failed {
    /// What a protocol answers that has no words of its own for it.
    pub(super) fn into_problem(self) -> Problem {
        match self {
            Self::Problem(problem) => problem,
            Self::NotPlanned(error) => error.into(),
        }
    }
}

impl From<NotPlanned> for Problem {
    fn from(error: NotPlanned) -> Self {
        match error {
            NotPlanned::Session(error) => error.into(),
            NotPlanned::NotAnswered(error) => error.into(),
            NotPlanned::NothingNew | NotPlanned::TwoAnswers(_) | NotPlanned::InvalidInput(..) => {
                Self::invalid(error.to_string())
            }
            NotPlanned::NotYourAsk(_) => Self::forbidden(error.to_string()),
            NotPlanned::UnknownAsk(_) => Self::not_found(error.to_string()),
            NotPlanned::Busy
            | NotPlanned::GoneOn
            | NotPlanned::AnsweredElsewhere
            | NotPlanned::AskOpen(_)
            | NotPlanned::AnsweredOtherwise(_) => Self::new(ErrorCode::Conflict, error.to_string()),
        }
    }
}

/// Does what a page asks for, as a whole, whether or not the page stays; tells what comes of it.
pub(super) async fn converse(
    app: &App,
    principal: &Principal,
    input: PageInput,
    face: Face,
) -> Result<Playback, Failed> {
    let (taken, principal) = (app.clone(), principal.clone());
    let begun = app.begin_apart(async move { begin(&taken, &principal, input, face).await });
    begun.await.unwrap_or_else(|_| Err(Problem::interrupted().into()))
}

async fn begin(app: &App, principal: &Principal, mut input: PageInput, face: Face) -> Result<Playback, Failed> {
    if let Principal::Client(own) = principal {
        principal.must_be_client(input.client.get_or_insert_with(|| own.client.clone()))?;
        principal.session(Some(input.session.clone()))?;
    }
    let sessions = app.sessions();
    if !app.hub().is_serving() {
        return Err(SessionError::ShuttingDown.into());
    }
    let known = match sessions.get(&input.session).await {
        Ok(session) => Some(session),
        Err(SessionError::Unknown(_)) if face.makes_sessions => None,
        Err(error) => return Err(error.into()),
    };
    principal.must_be_allowed(&sessions.setup().agents, input.agent.as_deref(), known.as_deref())?;
    sessions.must_know(input.agent.as_deref(), input.model.as_ref())?;
    if let Some(session) = &known {
        must_own(principal, session)?;
    }
    let new = NewSession {
        client: input.client.clone(),
        agent: input.agent.as_deref().map(Into::into),
        has_frontend: face.has_frontend,
        ..NewSession::default()
    };
    let shown = as_shown(app, known.as_deref(), &input, face)?;
    must_not_shadow(&input.page_tools, &sessions.offered(&shown, shown.client.as_ref(), &BTreeMap::new(), &[]))?;
    let (id, history) = (input.session.clone(), std::mem::replace(&mut input.history, History::none()));
    let earlier = earlier(app, &shown, input.model.as_ref(), history).await?;
    // Refused before anything is changed: no session is made, stopped or forgotten for it.
    let request = request(app, principal, input, face, &shown);
    let stored = sessions.messages(&id).await?;
    let stored = if stored.is_empty() { &earlier } else { &stored };
    request.plan(stored, sessions.is_busy(&id)).map_err(Failed::NotPlanned)?;
    if known.is_none()
        && let Some((ask, _)) = request.answers.first().filter(|_| face.manners.answers_all_asks)
    {
        return Err(Failed::NotPlanned(NotPlanned::UnknownAsk(ask.clone())));
    }
    let session = match known {
        Some(_) => sessions.get(&id).await?,
        None => sessions.get_or_create(id, new).await?,
    };
    // Somebody else may have made it just now.
    must_own(principal, &session)?;
    sessions.import(&session.id, earlier).await?;
    sessions.converse(&session, &request).await.map_err(Failed::NotPlanned)
}

/// The session as it is once the page shows it.
fn as_shown(app: &App, known: Option<&Session>, input: &PageInput, face: Face) -> Result<Session, SessionError> {
    let mut shown = match known {
        Some(session) => Session::clone(session),
        None => app.sessions().draft(NewSession { id: Some(input.session.clone()), ..NewSession::default() })?,
    };
    if let Some(client) = &input.client
        && shown.client.get_or_insert_with(|| client.clone()) != client
    {
        return Err(SessionError::Forbidden);
    }
    shown.has_frontend |= face.has_frontend;
    Ok(shown)
}

/// The messages of a conversation that only the page knows of.
async fn earlier(
    app: &App,
    session: &Session,
    model: Option<&ModelRef>,
    history: History,
) -> Result<Vec<Arc<Message>>, Problem> {
    let sessions = app.sessions();
    let is_known = match &history.first {
        Some(first) => sessions.knows(&session.id, first).await?,
        None => history.is_empty,
    };
    if is_known {
        return Ok(Vec::new());
    }
    let (reader, read) = (app.clone(), history.read);
    let read = app.hub().aside().run_for(history.bytes, move || read(&reader)).await;
    let said = read.unwrap_or_else(|| Err(Problem::interrupted()))?;
    let model = model.unwrap_or_else(|| sessions.model_of(session));
    Ok(sessions.earlier(session, model, said).into_iter().map(Arc::new).collect())
}

fn request(app: &App, principal: &Principal, input: PageInput, face: Face, session: &Session) -> PageRequest {
    let own = || app.sessions().agent(input.agent.as_deref().or(session.agent.as_deref())).ok()?.system.clone();
    let system = (!input.instructions.is_empty())
        .then(|| own().into_iter().chain(input.instructions.iter().cloned()).collect::<Vec<_>>().join("\n\n"));
    PageRequest {
        actor: principal.actor(),
        said: input.said,
        replaces: input.replaces,
        // Where all asks are answered first, calls that the page has left out are over with the next prompt.
        audience: Audience {
            follows: true,
            yields_asks: face.yields_asks,
            has_frontend: face.has_frontend,
            page_tools: input.page_tools,
            answers: face.manners.settles_calls.then(|| input.results.clone()),
            system,
            model: input.model,
            connection: input.connection,
            client: input.client,
        },
        results: input.results,
        has_new_results: input.has_new_results,
        shown: input.shown.map(|shown| shown.into_iter().collect()),
        ended: input.ended.into_iter().collect(),
        answers: input.answers,
        agent: input.agent.map(Into::into),
        manners: face.manners,
    }
}

impl History {
    /// No history at all.
    fn none() -> Self {
        Self { first: None, is_empty: true, bytes: 0, read: Box::new(|_| Ok(Vec::new())) }
    }
}

/// Refuses a conversation of too many messages.
pub(super) fn must_be_few(messages: &[Box<RawValue>]) -> Result<(), Problem> {
    match messages.len() > MESSAGES {
        true => {
            Err(Problem::invalid(format!("`messages` has {} entries; at most {MESSAGES} are allowed", messages.len())))
        }
        false => Ok(()),
    }
}

/// Reads the message at a place.
pub(super) fn read<T: for<'de> Deserialize<'de>>(json: &RawValue, place: usize) -> Result<T, Problem> {
    // serde would take a list of an object's values as well.
    if !json.get().starts_with('{') {
        return Err(Problem::invalid(format!("`messages[{place}]` must be an object")));
    }
    serde_json::from_str(json.get()).map_err(|error| Problem::invalid(format!("`messages[{place}]`: {error}")))
}

/// How many bytes messages have.
pub(super) fn bytes(messages: &[Box<RawValue>]) -> usize {
    messages.iter().map(|message| message.get().len()).sum()
}

/// Whether there is something to answer in what a user says.
pub(super) fn says_something(parts: &[PartBody]) -> bool {
    parts.iter().any(|part| match part {
        PartBody::Text { text, .. } => !text.trim().is_empty(),
        _ => true,
    })
}

/// A tool as a page brings it along.
pub(super) struct PageTool {
    pub(super) name: String,
    pub(super) description: String,
    /// Its JSON Schema.
    pub(super) parameters: Option<Box<RawValue>>,
}

/// Reads the tools of a page.
pub(super) async fn page_tools(hub: &Hub, tools: Vec<PageTool>) -> Result<Vec<Arc<ToolSpec>>, Problem> {
    let most = hub.limits().tools_per_client;
    if tools.len() > most {
        return Err(Problem::new(ErrorCode::TooLarge, format!("{} tools; at most {most} are allowed", tools.len())));
    }
    let mut specs = Vec::with_capacity(tools.len());
    for tool in tools {
        let name = ToolName::parse(&tool.name)?;
        let schema = hub.schemas().compile(tool.parameters.as_deref(), hub.limits()).await.map_err(|error| {
            Problem::invalid(format!("the `parameters` of tool \"{name}\" cannot be used: {error}"))
        })?;
        let (description, effect) = (tool.description, Effect::Write);
        specs.push(Arc::new(ToolSpec { name, description, schema, timeout: None, effect, version: None }));
    }
    Ok(specs)
}

/// Refuses a page whose tools have the names of others: nobody could tell them apart.
fn must_not_shadow(page: &[Arc<ToolSpec>], others: &[Offered]) -> Result<(), Problem> {
    for (place, tool) in page.iter().enumerate() {
        let name = tool.name.as_str();
        let is_taken = others.iter().any(|other| other.id() == name || other.alias == name);
        if is_taken || page.iter().take(place).any(|other| other.name == tool.name) {
            let problem = format!("the page's tool \"{name}\" has the name of another; choose another name");
            return Err(Problem::invalid(problem));
        }
    }
    Ok(())
}

/// Writes what a turn tells in the words of a protocol.
pub(super) trait Encoder: Send + 'static {
    /// Writes an event.
    fn event(&mut self, event: &TurnEvent);

    /// The reader may not read any more; what it reads may go on.
    fn expired(&mut self) {}

    /// What is written since the last time.
    fn take(&mut self) -> Bytes;
}

/// Streams what is told, as it comes.
pub(super) fn response(
    app: &App,
    principal: &Principal,
    playback: Playback,
    encoder: impl Encoder,
    silence: Duration,
) -> Response {
    let events = stream::unfold(playback, async |mut playback| Some((playback.next().await?, playback)));
    streamed(app, principal, events, encoder, silence)
}

/// The same of other events.
pub(super) fn streamed(
    app: &App,
    principal: &Principal,
    events: impl Stream<Item = TurnEvent> + Send + 'static,
    encoder: impl Encoder,
    silence: Duration,
) -> Response {
    let lifetime = principal.lifetime(app.hub().clock().now());
    let expires = lifetime.map(|lifetime| Box::pin(tokio::time::sleep(lifetime)));
    let source = Encoded { events: Some(Box::pin(events)), encoder, expires };
    sse::response(source, sse::KEEP_ALIVE, silence, None)
}

/// Events on their way to a reader.
struct Encoded<E> {
    /// `None` when they are over.
    events: Option<Pin<Box<dyn Stream<Item = TurnEvent> + Send>>>,
    encoder: E,
    /// When the reader may not read any more.
    expires: Option<Pin<Box<Sleep>>>,
}

impl<E: Encoder> sse::FrameSource for Encoded<E> {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        loop {
            let written = self.encoder.take();
            if !written.is_empty() {
                return Poll::Ready(Next::Frame(written));
            }
            let Some(events) = &mut self.events else { return Poll::Ready(Next::End) };
            if self.expires.as_mut().is_some_and(|expires| expires.as_mut().poll(context).is_ready()) {
                self.encoder.expired();
                self.events = None;
                continue;
            }
            match events.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(event)) => self.encoder.event(&event),
                Poll::Ready(None) => self.events = None,
            }
        }
    }
}
