//! The part that all protocols for pages share. A protocol decodes a request into a [`PageInput`], [`converse`] plans
//! and executes it, and an [`Encoder`] writes the resulting events.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use handback_core::Hub;
use handback_core::events::TurnEvent;
use handback_core::id::{MessageId, SessionId, ToolName};
use handback_core::sessions::{Earlier, Manners, NewSession, NotPlanned, PageRequest, Playback, SessionError};
use handback_core::store::{Message, ModelRef, PageTool, PartBody, Session, TurnNeeds};
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

/// Most messages in a page's request.
const MESSAGES: usize = 10_000;

/// A page's request, independent of its protocol.
pub(super) struct PageInput {
    pub(super) session: SessionId,
    /// The conversation before the new messages.
    pub(super) history: EarlierMessages,
    pub(super) request: PageRequest,
}

/// The behaviour that a protocol wants from the sessions that it shows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Face {
    pub(super) manners: Manners,
    /// Whether a follower of a turn leaves when only asks are open.
    pub(super) yields_asks: bool,
    /// Whether the page can run frontend tools.
    pub(super) has_frontend: bool,
    /// Whether an unknown session is created.
    pub(super) makes_sessions: bool,
}

/// The earlier messages that a page sends. They are read completely only if the server does not know the conversation.
pub(super) struct EarlierMessages {
    /// The id of the first message, if it has one.
    pub(super) first: Option<MessageId>,
    pub(super) is_empty: bool,
    pub(super) bytes: usize,
    pub(super) read: ReadEarlier,
}

/// Reads the messages; an error names the message that is wrong.
type ReadEarlier = Box<dyn FnOnce(&App) -> Result<Vec<Earlier>, Problem> + Send>;

/// The playback of what a page asked for. The inner error is a request that cannot be planned, which a protocol may report
/// in its own way.
type Conversed = Result<Result<Playback, NotPlanned>, Problem>;

/// Carries out a page's request completely, even if the page disconnects, and returns the playback of its events.
pub(super) async fn converse(app: &App, principal: &Principal, input: PageInput, face: Face) -> Conversed {
    let (own_app, principal) = (app.clone(), principal.clone());
    let begun = app.begin_apart(async move { begin(&own_app, &principal, input, face).await });
    begun.await.unwrap_or_else(|_| Err(Problem::interrupted()))
}

async fn begin(app: &App, principal: &Principal, input: PageInput, face: Face) -> Conversed {
    let PageInput { session: id, history, mut request } = input;
    if let Principal::Client(own) = principal {
        principal.must_be_client(request.needs.client.get_or_insert_with(|| own.client.clone()))?;
        principal.session(Some(id.clone()))?;
    }
    let settles_calls = face.manners.settles_calls;
    request.manners = face.manners;
    request.needs = TurnNeeds {
        is_followed: true,
        yields_asks: face.yields_asks,
        has_frontend: face.has_frontend,
        settles_calls,
        results: if settles_calls { request.results.clone() } else { Vec::new() },
        ..request.needs
    };
    let (agent, needs) = (request.agent.as_deref(), &request.needs);
    let sessions = app.sessions();
    if !app.hub().is_serving() {
        return Err(SessionError::ShuttingDown.into());
    }
    let known = sessions.find(&id).await?;
    if known.is_none() && !face.makes_sessions {
        return Err(SessionError::Unknown(id).into());
    }
    principal.must_be_allowed(&sessions.setup().agents, agent, known.as_deref())?;
    sessions.must_know(agent, needs.model.as_ref())?;
    if let Some(session) = &known {
        must_own(principal, session)?;
    }
    let new = NewSession {
        client: needs.client.clone(),
        agent: request.agent.clone(),
        has_frontend: face.has_frontend,
        ..NewSession::default()
    };
    let shown = as_shown(app, known.as_deref(), &id, needs)?;
    must_not_shadow(&needs.page_tools, &sessions.offered(&shown, shown.client.as_ref(), &BTreeMap::new(), &[]))?;
    let earlier = earlier(app, &shown, needs.model.as_ref(), history).await?;
    // A refusal comes before any change: no session has been created, stopped or forgotten yet.
    let stored = sessions.messages(&id).await?;
    let stored = if stored.is_empty() { &earlier } else { &stored };
    if let Err(error) = request.plan(stored, sessions.is_busy(&id)) {
        return Ok(Err(error));
    }
    if known.is_none()
        && let Some((ask, _)) = request.answers.first().filter(|_| face.manners.answers_all_asks)
    {
        return Ok(Err(NotPlanned::UnknownAsk(ask.clone())));
    }
    let session = match known {
        Some(_) => sessions.get(&id).await?,
        None => sessions.get_or_create(id, new).await?,
    };
    // Another request may have created the session just now.
    must_own(principal, &session)?;
    sessions.import(&session.id, earlier).await?;
    Ok(sessions.converse(&session, &principal.actor(), &request).await)
}

/// The session with the client and the frontend that the page adds to it.
fn as_shown(app: &App, known: Option<&Session>, id: &SessionId, needs: &TurnNeeds) -> Result<Session, SessionError> {
    let mut shown = match known {
        Some(session) => Session::clone(session),
        None => app.sessions().draft(NewSession { id: Some(id.clone()), ..NewSession::default() })?,
    };
    if let Some(client) = &needs.client
        && shown.client.get_or_insert_with(|| client.clone()) != client
    {
        return Err(SessionError::Forbidden);
    }
    shown.has_frontend |= needs.has_frontend;
    Ok(shown)
}

/// The messages that only the page knows.
async fn earlier(
    app: &App,
    session: &Session,
    model: Option<&ModelRef>,
    history: EarlierMessages,
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

/// Refuses a request with too many messages.
pub(super) fn must_be_few(messages: &[Box<RawValue>]) -> Result<(), Problem> {
    match messages.len() > MESSAGES {
        true => {
            Err(Problem::invalid(format!("`messages` has {} entries; at most {MESSAGES} are allowed", messages.len())))
        }
        false => Ok(()),
    }
}

/// Parses the message at an index of `messages`.
pub(super) fn read<T: for<'de> Deserialize<'de>>(json: &RawValue, place: usize) -> Result<T, Problem> {
    // serde would also accept a list of the object's values.
    if !json.get().starts_with('{') {
        return Err(Problem::invalid(format!("`messages[{place}]` must be an object")));
    }
    serde_json::from_str(json.get()).map_err(|error| Problem::invalid(format!("`messages[{place}]`: {error}")))
}

/// The total size of messages in bytes.
pub(super) fn bytes(messages: &[Box<RawValue>]) -> usize {
    messages.iter().map(|message| message.get().len()).sum()
}

/// Whether a user's message has anything to answer.
pub(super) fn says_something(parts: &[PartBody]) -> bool {
    parts.iter().any(|part| match part {
        PartBody::Text { text, .. } => !text.trim().is_empty(),
        _ => true,
    })
}

/// Checks the tools of a page: a name, a description and a JSON Schema each.
pub(super) async fn page_tools(
    hub: &Hub,
    tools: impl ExactSizeIterator<Item = (String, String, Option<Box<RawValue>>)>,
) -> Result<Vec<PageTool>, Problem> {
    let most = hub.limits().tools_per_client;
    if tools.len() > most {
        return Err(Problem::new(ErrorCode::TooLarge, format!("{} tools; at most {most} are allowed", tools.len())));
    }
    let mut page_tools = Vec::with_capacity(tools.len());
    for (name, description, parameters) in tools {
        let name = ToolName::parse(&name)?;
        hub.schemas().compile(parameters.as_deref(), hub.limits()).await.map_err(|error| {
            Problem::invalid(format!("the `parameters` of tool \"{name}\" cannot be used: {error}"))
        })?;
        page_tools.push(PageTool { name, description, parameters });
    }
    Ok(page_tools)
}

/// Refuses page tools that share a name with another tool, because the two could not be told apart.
fn must_not_shadow(page: &[PageTool], others: &[Offered]) -> Result<(), Problem> {
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

/// Writes the events of a turn in the form of a protocol.
pub(super) trait Encoder: Send + 'static {
    /// Writes an event.
    fn event(&mut self, event: &TurnEvent);

    /// The reader's token has expired; the turn may go on.
    fn expired(&mut self) {}

    /// Takes what was written since the last `take`.
    fn take(&mut self) -> Bytes;
}

/// Streams the events of a turn.
pub(super) fn response(
    app: &App,
    principal: &Principal,
    events: impl Stream<Item = TurnEvent> + Send + 'static,
    encoder: impl Encoder,
    silence: Duration,
) -> Response {
    let lifetime = principal.lifetime(app.hub().clock().now());
    let expires = lifetime.map(|lifetime| Box::pin(tokio::time::sleep(lifetime)));
    let source = Encoded { events: Some(Box::pin(events)), is_whole: false, encoder, expires };
    sse::response(source, sse::KEEP_ALIVE, silence, None)
}

struct Encoded<E> {
    /// `None` after the last event.
    events: Option<Pin<Box<dyn Stream<Item = TurnEvent> + Send>>>,
    /// Whether the last event of the turn has come. Without it the stream is cut, and the reader comes back.
    is_whole: bool,
    encoder: E,
    /// The time at which the reader's token expires.
    expires: Option<Pin<Box<Sleep>>>,
}

impl<E: Encoder> sse::FrameSource for Encoded<E> {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        loop {
            let written = self.encoder.take();
            if !written.is_empty() {
                return Poll::Ready(Next::Frame(written));
            }
            let Some(events) = &mut self.events else {
                return Poll::Ready(if self.is_whole { Next::End } else { Next::Cut });
            };
            if self.expires.as_mut().is_some_and(|expires| expires.as_mut().poll(context).is_ready()) {
                self.encoder.expired();
                (self.events, self.is_whole) = (None, true);
                continue;
            }
            match events.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(event)) => {
                    // Earlier versions recorded the events of runs in another form.
                    self.is_whole = event.is_last() || matches!(event, TurnEvent::Recorded(_));
                    self.encoder.event(&event);
                }
                Poll::Ready(None) => self.events = None,
            }
        }
    }
}
