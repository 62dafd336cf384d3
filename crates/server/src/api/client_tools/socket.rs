//! The protocol on a client's WebSocket.

use std::time::Duration;

use axum::extract::ws::{Utf8Bytes, WebSocketUpgrade};
use axum::response::Response;
use handback_core::Hub;
use handback_core::calls::{Connection, Delivery, Taken};
use handback_core::id::{RequestId, SessionId};
use handback_core::json::mend;
use handback_core::store::Outcome;
use handback_wire::client_tools as wire;
use handback_wire::error::ErrorCode;
use handback_wire::socket::{Answer, ServerMessage, close};
use serde::Deserialize;
use serde_json::value::RawValue;
use tracing::{Instrument, Span};

use super::decode;
use super::encode::{self, json};
use crate::app::App;
use crate::auth::Principal;
use crate::body::parse;
use crate::problem::Problem;
use crate::transport::ws::{self, Close, Outgoing, Speaker};

/// Answers the upgrade and serves the WebSocket until it closes.
pub(super) fn upgrade(
    app: App,
    principal: Principal,
    connection: Connection,
    upgrade: WebSocketUpgrade,
    lifetime: Option<Duration>,
) -> Response {
    let settings = ws::SocketSettings {
        largest_message: app.config().limits.body_bytes,
        keepalive: app.config().client_tools.keepalive_interval,
        lifetime,
    };
    let tasks = app.tasks().clone();
    let speaker = ClientSocket { app, principal, connection };
    let span = Span::current();
    let serve = move |socket| tasks.track_future(ws::drive(socket, settings, speaker).instrument(span));
    settings.apply(upgrade).on_upgrade(serve)
}

/// Answers messages of the application on a connection, one after the other.
pub(crate) async fn answer_messages(app: &App, connection: Connection, messages: Vec<Option<String>>) -> Vec<String> {
    let mut socket = ClientSocket { app: app.clone(), principal: Principal::Application, connection };
    let mut answers = Vec::new();
    for message in messages {
        answers.push(socket.answer(message.map(Utf8Bytes::from)).await);
    }
    answers
}

struct ClientSocket {
    app: App,
    principal: Principal,
    connection: Connection,
}

impl Speaker for ClientSocket {
    async fn next(&mut self) -> Outgoing {
        outgoing(self.connection.next().await)
    }

    /// Answers a message. A bad one is answered with an error, and the connection stays open.
    async fn answer(&mut self, message: Option<Utf8Bytes>) -> String {
        let Some(text) = message else {
            let error = "messages must be text frames with one JSON object each".to_owned();
            return json(&ServerMessage::Error { error, code: ErrorCode::InvalidRequest });
        };
        let hub = self.app.hub().clone();
        let read = self.app.hub().aside().run_for(text.len(), move || read(&hub, &text)).await;
        let (said, reference) = read.unwrap_or_else(|| (Err(Problem::interrupted()), None));
        let message = match said {
            Ok(said) => self.take(said).await,
            Err(problem) => Err(problem),
        };
        let message =
            message.unwrap_or_else(|problem| ServerMessage::Error { error: problem.message, code: problem.code });
        json(&Answer { message, reference: reference.as_deref() })
    }
}

fn outgoing(delivery: Delivery) -> Outgoing {
    match delivery {
        Delivery::Request { head, attempt, .. } => Outgoing::Text(json(&encode::message(&head, attempt))),
        Delivery::Cancel { request, reason, .. } => {
            Outgoing::Text(json(&ServerMessage::Cancel { request_id: request.to_string(), reason: reason.to_string() }))
        }
        Delivery::Superseded => Outgoing::Close(Close { code: close::SUPERSEDED, reason: "superseded" }),
        Delivery::GoingAway => Outgoing::Close(Close { code: close::GOING_AWAY, reason: "going away" }),
    }
}

#[derive(Deserialize)]
struct FrameHead {
    #[serde(rename = "type")]
    kind: String,
    #[serde(rename = "ref")]
    reference: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Register {
    tools: Vec<wire::Tool>,
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
}

#[derive(Deserialize)]
struct Unregister {
    #[serde(rename = "toolIDs")]
    tool_ids: Option<Vec<String>>,
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
}

/// A message of a client.
enum Said {
    Register(Register),
    Unregister(Unregister),
    Result(RequestId, Outcome),
    Ping,
}

/// Parses a message and the reference that its answer repeats.
fn read(hub: &Hub, text: &str) -> (Result<Said, Problem>, Option<Box<RawValue>>) {
    let text = &*mend(text);
    let FrameHead { kind, reference } = match parse(text) {
        Ok(head) => head,
        Err(problem) => return (Err(problem), None),
    };
    let said = match kind.as_str() {
        "register" => parse(text).map(Said::Register),
        "unregister" => parse(text).map(Said::Unregister),
        "result" => decode::result(text, hub).map(|(request, outcome)| Said::Result(request, outcome)),
        "ping" => Ok(Said::Ping),
        _ => Err(Problem::invalid("`type` must be \"register\", \"unregister\", \"result\" or \"ping\"")),
    };
    (said, reference)
}

impl ClientSocket {
    async fn take(&self, said: Said) -> Result<ServerMessage, Problem> {
        let Self { app, principal, connection } = self;
        let client = connection.client();
        let session_of = |said: Option<String>| principal.session(said.as_deref().map(SessionId::parse).transpose()?);
        match said {
            Said::Register(Register { tools, session_id }) => {
                let session = session_of(session_id)?;
                let specs = decode::tools(app.hub(), tools).await?;
                let placement = app.sessions().placement(&principal.actor(), client, session).await?;
                let ids = app.hub().register(client, &placement, specs)?.stored().await?;
                Ok(ServerMessage::Registered { tool_ids: ids.iter().map(ToString::to_string).collect() })
            }
            Said::Unregister(Unregister { tool_ids, session_id }) => {
                let session = session_of(session_id)?;
                let ids = app.hub().unregister(client, session.as_ref(), tool_ids.as_deref()).stored().await?;
                Ok(ServerMessage::Unregistered { tool_ids: ids.iter().map(ToString::to_string).collect() })
            }
            Said::Result(request, outcome) => {
                let actor =
                    handback_core::calls::Actor::Client { client: client.clone(), session: principal.session(None)? };
                let taken = app.hub().complete(&request, &actor, outcome).await;
                taken_message(&request, taken.map_err(Problem::from))
            }
            Said::Ping => Ok(ServerMessage::Pong),
        }
    }
}

fn taken_message(request: &RequestId, taken: Result<Taken, Problem>) -> Result<ServerMessage, Problem> {
    let request_id = request.to_string();
    match taken {
        Ok(Taken::First) => Ok(ServerMessage::Result { request_id, accepted: true, ignored: None, code: None }),
        Ok(Taken::Again) => Ok(ServerMessage::Result { request_id, accepted: true, ignored: Some(true), code: None }),
        Err(problem) if problem.code == ErrorCode::InternalError => Err(problem),
        Err(problem) => {
            Ok(ServerMessage::Result { request_id, accepted: false, ignored: None, code: Some(problem.code) })
        }
    }
}
