//! The routes of chats.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use handback_core::call::CallState;
use handback_core::id::{MessageId, SessionId};
use handback_core::message::{Message, Role, Session};
use handback_core::permission::NotAnswered;
use handback_core::sessions::{Audience, Feed, NewSession, Prompt, Prompted, SessionError};
use handback_core::store::{CallFilter, Most};
use handback_wire::chat as wire;
use handback_wire::error::ErrorCode;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::decode::{self, Chat, New};
use super::encode::{self, Encoder, Surroundings};
use super::stream;
use crate::api::page::{self, Again, Known, answers};
use crate::api::session::{client_header, connection, must_own};
use crate::api::{Answer, PathValue};
use crate::app::App;
use crate::auth::Principal;
use crate::body::Payload;
use crate::problem::Problem;

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(chat)).routes(routes!(show)).routes(routes!(resume)).routes(routes!(abort))
}

/// Say something in a chat, or go on with it
///
/// What the AI SDK's `useChat` sends; the answer is its UI message stream. Closing the connection does not stop the
/// turn: come back to it with `GET /api/chat/{id}/stream`.
#[utoipa::path(post, path = "/api/chat", tag = "chats", request_body = wire::ChatRequest,
    responses(
        (status = 200, description = "The UI message stream", body = String, content_type = "text/event-stream"),
        (status = 400, description = "Bad body, unknown agent or model, a tool of the page has the name of another", body = handback_wire::error::ErrorBody),
        (status = 403, description = "Another client's chat", body = handback_wire::error::ErrorBody),
        (status = 409, description = "Too many prompts wait, the message is being answered elsewhere, or the conversation has gone on", body = handback_wire::error::ErrorBody),
    ))]
async fn chat(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    payload: Payload,
) -> Result<Response, Problem> {
    let mut chat = decode::chat(&app, &payload).await?;
    let connection = connection(chat.connection.as_deref(), &headers);
    chat.client = client_header(&headers, chat.client)?;
    if let Principal::Client(own) = &principal {
        principal.must_be_client(chat.client.get_or_insert_with(|| own.client.clone()))?;
        principal.session(Some(chat.session.clone()))?;
    }
    let new = NewSession { client: chat.client.clone(), has_frontend: true, ..NewSession::default() };
    must_be_possible(&app, &principal, &chat, &new).await?;
    let session = app.sessions().get_or_create(chat.session.clone(), new).await?;
    // Somebody else may have made it just now.
    must_own(&principal, &session)?;
    let audience = Audience { connection, ..audience(&chat) };
    let turn = Turn { app: &app, principal: &principal, session, audience, chat };
    turn.import().await?;
    turn.take().await
}

/// Refuses what cannot be done, before anything is changed: no chat is made, stopped or forgotten for it.
async fn must_be_possible(app: &App, principal: &Principal, chat: &Chat, new: &NewSession) -> Result<(), Problem> {
    let sessions = app.sessions();
    if !app.hub().is_serving() {
        return Err(SessionError::ShuttingDown.into());
    }
    let known = find(app, principal, chat.session.as_str()).await?;
    principal.must_be_allowed(&sessions.setup().agents, chat.agent.as_deref(), known.as_deref())?;
    sessions.must_know(chat.agent.as_deref(), chat.model.as_ref())?;
    if known.is_none() {
        if matches!(chat.new, New::GoOn { .. }) && !chat.history.has_user {
            return Err(nothing_new());
        }
        // It will be imported.
        chat.history.read(app.hub()).await?;
    }
    // The session as it is once the page shows it.
    let mut shown = match known {
        Some(session) => Session::clone(&session),
        None => sessions.draft(NewSession { id: Some(chat.session.clone()), ..NewSession::default() })?,
    };
    if let Some(client) = &new.client
        && shown.client.get_or_insert_with(|| client.clone()) != client
    {
        return Err(SessionError::Forbidden.into());
    }
    shown.has_frontend = true;
    page::must_not_shadow(&chat.page_tools, &sessions.offered(&shown, shown.client.as_ref(), &BTreeMap::new(), &[]))
}

fn audience(chat: &Chat) -> Audience {
    Audience {
        follows: true,
        yields_asks: chat.yields_asks,
        has_frontend: true,
        page_tools: chat.page_tools.clone(),
        client: chat.client.clone(),
        ..Audience::default()
    }
}

/// A request on its way to a turn.
struct Turn<'a> {
    app: &'a App,
    principal: &'a Principal,
    session: Arc<Session>,
    audience: Audience,
    chat: Chat,
}

impl Turn<'_> {
    /// Takes up a conversation that only the page knows of: the server has lost it, or never had it.
    async fn import(&self) -> Result<(), Problem> {
        let sessions = self.app.sessions();
        let Some(first) = &self.chat.history.first else { return Ok(()) };
        if sessions.knows(&self.session.id, first).await? {
            return Ok(());
        }
        let mut said = self.chat.history.read(self.app.hub()).await?;
        if let New::GoOn { message, .. } = &self.chat.new {
            said.push(message.clone());
        }
        let model = self.chat.model.as_ref().unwrap_or_else(|| sessions.model_of(&self.session));
        let earlier = decode::earlier(self.app.hub(), &self.session, model, said);
        Ok(sessions.import(&self.session.id, earlier).await?)
    }

    async fn take(self) -> Result<Response, Problem> {
        match &self.chat.new {
            New::GoOn { .. } => self.go_on().await,
            New::Prompt { .. } => self.prompt().await,
        }
    }

    /// The user says something.
    async fn prompt(self) -> Result<Response, Problem> {
        let New::Prompt { message, parts, anew } = &self.chat.new else { return Err(nothing_new()) };
        let prompt = || Prompt {
            client: self.chat.client.clone(),
            message: message.clone(),
            agent: self.chat.agent.clone().map(Into::into),
            model: self.chat.model.clone(),
            system: None,
            tools: BTreeMap::new(),
            parts: parts.clone(),
            wants_reply: true,
            audience: self.audience.clone(),
        };
        let sessions = self.app.sessions();
        let prompted = match (message, anew) {
            (Some(_), true) => sessions.prompt_anew(&self.session, prompt()).await?,
            (None, _) => sessions.prompt(&self.session, prompt()).await?,
            (Some(message), false) => {
                let mut prompted = sessions.prompt(&self.session, prompt()).await;
                while let Err(SessionError::DuplicateMessage(_)) = prompted {
                    if let Some(response) = self.repeat(message).await? {
                        return Ok(response);
                    }
                    // Nothing was done for it so far; unless somebody else was quicker.
                    prompted = sessions.prompt_again(&self.session, prompt()).await;
                }
                prompted?
            }
        };
        let encoder = encoder(self.app).yields_asks(self.chat.yields_asks);
        Ok(stream::response(self.app, self.principal, encoder, &[], prompted.feed.as_ref()))
    }

    /// The same again, because its answer may have been lost on its way: its turn is followed, goes on, or is told once
    /// more, from the beginning; `None` if nothing was done for it so far.
    async fn repeat(&self, user: &MessageId) -> Result<Option<Response>, Problem> {
        let sessions = self.app.sessions();
        let (answers, feed) = loop {
            match page::again(sessions, &self.session, user, &self.audience).await? {
                Again::Followed(answers, feed) => break (answers, Some(feed)),
                Again::Ended(answers) if !answers.is_empty() => break (answers, None),
                Again::Ended(_) | Again::Failed => {
                    let newest = sessions.messages(&self.session.id).await?.pop();
                    let is_newest = newest.is_some_and(|newest| newest.id == *user || newest.answers() == Some(user));
                    if is_newest && !sessions.is_busy(&self.session.id) {
                        return Ok(None);
                    }
                    // Unless somebody has just begun to answer it.
                    if !sessions.is_answering(&self.session.id, user) {
                        let problem = "this message is being answered elsewhere; try again later";
                        return Err(Problem::new(ErrorCode::Conflict, problem));
                    }
                }
            }
        };
        let encoder = encoder(self.app).yields_asks(self.chat.yields_asks);
        Ok(Some(from_beginning(self.app, self.principal, encoder, answers, feed.as_ref())))
    }

    /// The page says what came of its calls, or what the user said to questions.
    async fn go_on(self) -> Result<Response, Problem> {
        let New::GoOn { message, results, answers: replies } = self.chat.new else { return Err(nothing_new()) };
        let sessions = self.app.sessions();
        let asks: Vec<_> = replies.iter().map(|(ask, _)| ask.clone()).collect();
        for (ask, answer) in replies {
            if sessions.hub().ask(&ask).is_none_or(|open| open.call.session != self.session.id) {
                continue;
            }
            match sessions.answer(&ask, &self.principal.caller(), answer).await {
                // Somebody else was quicker.
                Ok(_) | Err(NotAnswered::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let stored = sessions.messages(&self.session.id).await?;
        let Known { user, last, is_current } = known(&stored, &message).ok_or_else(nothing_new)?;
        if !is_current {
            sessions.keep_late(&self.session, &user.id, results).await?;
            return Err(Problem::new(
                ErrorCode::Conflict,
                "the conversation has gone on since; nothing is answered to this",
            ));
        }
        let mut answers = answers(stored, &user.id);
        let name = Some(message.id.as_str()).filter(|id| !id.is_empty());
        let name = name.or_else(|| answers.first().map(|first| first.id.as_str())).unwrap_or_default().to_owned();
        let mut encoder = encoder(self.app).continues(&name).yields_asks(self.chat.yields_asks);
        let running = || sessions.feed_of(&self.session.id, &user.id);
        // A page that does not know the last calls says something of earlier ones once more.
        if running().is_none() && answers.last().is_some_and(|answer| answer.id == last) {
            match sessions.go_on(&self.session, &user, &last, self.audience, results).await {
                Ok(Prompted { feed, .. }) => {
                    // The page may wait for calls that the server has ended for it.
                    let stored = sessions.messages(&self.session.id).await?;
                    if let Some(known) = stored.iter().find(|known| known.id == last) {
                        encoder.ends(known, &message);
                    }
                    return Ok(stream::response(self.app, self.principal, encoder, &[], feed.as_ref()));
                }
                // The same again: it goes on already, or has gone on.
                Err(SessionError::DuplicateMessage(_)) => {
                    answers = page::answers(sessions.messages(&self.session.id).await?, &user.id);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(feed) = running() {
            let asked = asks.into_iter().filter(|ask| stream::has_asked(&feed, ask));
            let encoder = encoder.knowing(stream::settled(&feed)).after(asked);
            return Ok(stream::response(self.app, self.principal, encoder, &[], Some(&feed)));
        }
        // It went on before; what the page does not have yet is told.
        let place = answers.iter().position(|answer| answer.id == last).unwrap_or_default();
        let mut rest = answers.get(place..).unwrap_or_default();
        if let Some((known, later)) = rest.split_first() {
            encoder.ends(known, &message);
            encoder.ended_with(known);
            rest = later;
        }
        Ok(stream::response(self.app, self.principal, encoder, rest, None))
    }
}

/// Finds the turn that a page's message belongs to, by its calls.
fn known(stored: &[Arc<Message>], page: &wire::UiMessage) -> Option<Known> {
    let calls: HashSet<&str> = page.parts.iter().filter_map(|part| part.tool_call_id.as_deref()).collect();
    page::known(stored, &calls)
}

fn nothing_new() -> Problem {
    Problem::invalid(
        "there is nothing to answer: the last message is no user's, and its calls are not known in this chat",
    )
}

fn encoder(app: &App) -> Encoder {
    Encoder::new(app.sessions().setup().frontend_tools.iter().map(|tool| tool.name.to_string()))
}

/// A turn with all that was answered before it went on.
fn from_beginning(
    app: &App,
    principal: &Principal,
    encoder: Encoder,
    mut answers: Vec<Arc<Message>>,
    feed: Option<&Feed>,
) -> Response {
    let Some(feed) = feed else { return stream::response(app, principal, encoder, &answers, None) };
    // What is being answered now is in the feed.
    answers.retain(|answer| {
        let is_complete = matches!(&answer.role, Role::Assistant(said) if said.completed.is_some());
        is_complete && !page::has_told(feed, &answer.id)
    });
    stream::response(app, principal, encoder.knowing(stream::settled(feed)), &answers, Some(feed))
}

/// A session of a chat, if there is one that the caller may use.
async fn find(app: &App, principal: &Principal, id: &str) -> Result<Option<Arc<Session>>, Problem> {
    let session = match app.sessions().get(&SessionId::parse(id)?).await {
        Ok(session) => session,
        Err(SessionError::Unknown(_)) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    must_own(principal, &session)?;
    Ok(Some(session))
}

/// Show a chat with its messages, as a page has them
#[utoipa::path(get, path = "/api/chat/{id}", tag = "chats",
    params(("id" = String, Path, description = "The chat")),
    responses((status = 200, body = wire::Chat), (status = 404, description = "No such chat", body = handback_wire::error::ErrorBody)))]
async fn show(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
) -> Result<Answer<wire::Chat>, Problem> {
    let session = find(&app, &principal, &id).await?.ok_or_else(|| unknown(&id))?;
    // The questions first: one that is answered meanwhile is no longer open, and its call has gone on.
    let asks = app.hub().asks(Some(&session.id));
    let of_session = CallFilter { client: None, session: Some(session.id.clone()) };
    let shown = app.hub().calls(&of_session, Some(CallState::Offered), None, Most::items(usize::MAX)).await?.0;
    let around = Surroundings {
        asks: asks.iter().map(|ask| (ask.call.call.clone(), ask.id.clone())).collect(),
        shown: shown.iter().map(|call| call.head.call.clone()).collect(),
        server_tools: app.sessions().setup().tools.iter().map(|tool| tool.spec().name()).collect(),
    };
    let messages = encode::messages(&app.sessions().messages(&session.id).await?, &around);
    Ok(Answer(wire::Chat { id, messages }))
}

/// Come back to the turn that is under way, from its beginning
#[utoipa::path(get, path = "/api/chat/{id}/stream", tag = "chats",
    params(("id" = String, Path, description = "The chat")),
    responses(
        (status = 200, description = "The UI message stream", body = String, content_type = "text/event-stream"),
        (status = 204, description = "No turn of a page is under way"),
        (status = 403, description = "Another client's chat", body = handback_wire::error::ErrorBody),
    ))]
async fn resume(State(app): State<App>, principal: Principal, PathValue(id): PathValue) -> Result<Response, Problem> {
    let Some(session) = find(&app, &principal, &id).await? else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let Some(feed) = app.sessions().feed(&session.id) else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    let answers = answers(app.sessions().messages(&session.id).await?, feed.user());
    let encoder = encoder(&app).yields_asks(feed.yields_asks());
    Ok(from_beginning(&app, &principal, encoder, answers, Some(&feed)))
}

/// Stop the turn that is under way
#[utoipa::path(post, path = "/api/chat/{id}/abort", tag = "chats",
    params(("id" = String, Path, description = "The chat")),
    responses((status = 200, description = "It is over"), (status = 404, description = "No such chat", body = handback_wire::error::ErrorBody)))]
async fn abort(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
) -> Result<Answer<serde_json::Value>, Problem> {
    let session = find(&app, &principal, &id).await?.ok_or_else(|| unknown(&id))?;
    app.sessions().abort(&session.id).await;
    Ok(Answer(json!({ "ok": true })))
}

fn unknown(id: &str) -> Problem {
    Problem::not_found(format!("there is no chat {id}"))
}
