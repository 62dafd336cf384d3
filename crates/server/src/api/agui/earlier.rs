//! An earlier conversation, which only the front end knows of, as messages of a session.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use handback_core::Hub;
use handback_core::clock::Time;
use handback_core::id::{CallId, MessageId};
use handback_core::json;
use handback_core::message::{
    AssistantMessage, Message, ModelRef, Part, PartBody, Role, Session, Span, StopReason, ToolPart, ToolResult,
    ToolState, Usage, UserMessage,
};
use handback_core::schema::{depth, empty_object, one_line};
use handback_wire::agui;

use super::decode::{self, History};
use crate::api::{must_fit, page};
use crate::problem::Problem;

/// Reads the messages of a history; an error says which is wrong.
pub(super) async fn read(hub: &Hub, history: &History) -> Result<Vec<agui::Message>, Problem> {
    page::read_all(hub, &history.messages, decode::message).await
}

/// The messages of an earlier conversation, as those of a session.
pub(super) fn messages(
    hub: &Hub,
    session: &Session,
    model: &ModelRef,
    said: Vec<agui::Message>,
) -> Result<Vec<Message>, Problem> {
    let mut results = HashMap::new();
    for message in &said {
        if let agui::Message::Tool { tool_call_id, content, error, .. } = message {
            // The first counts.
            let result = || decode::result(content.clone(), error.clone());
            results.entry(tool_call_id.clone()).or_insert_with(result);
        }
    }
    let mut importing = Importing {
        hub,
        session,
        model,
        now: hub.clock().time(),
        results,
        asked: None,
        messages: Vec::new(),
        names: HashSet::new(),
    };
    for message in said {
        importing.take(message)?;
    }
    Ok(importing.finish())
}

struct Importing<'a> {
    hub: &'a Hub,
    session: &'a Session,
    model: &'a ModelRef,
    now: Time,
    /// What came of calls, by call.
    results: HashMap<String, ToolResult>,
    /// The user's message that is answered.
    asked: Option<MessageId>,
    messages: Vec<Message>,
    names: HashSet<MessageId>,
}

impl Importing<'_> {
    fn take(&mut self, message: agui::Message) -> Result<(), Problem> {
        match message {
            agui::Message::User { id, content, .. } => {
                let Some(said) = decode::said(self.hub, &id, content)? else { return Ok(()) };
                let id = said.message.unwrap_or_else(|| self.hub.clock().message_id());
                let user = UserMessage {
                    agent: self.session.agent_name().into(),
                    model: self.model.clone(),
                    system: None,
                    tools: Default::default(),
                    wants_reply: true,
                    connection: None,
                };
                self.push(id, Role::User(user), said.parts);
            }
            agui::Message::Assistant { id, content, tool_calls, .. } => {
                let Some(parent) = self.asked.clone() else { return Ok(()) };
                let id = if id.is_empty() { self.hub.clock().message_id() } else { MessageId::parse(&id)? };
                let span = Span { start: self.now, end: Some(self.now) };
                let text = content.filter(|text| !text.is_empty()).map(|text| PartBody::Text { text, span });
                let calls = tool_calls.unwrap_or_default();
                let calls: Vec<PartBody> = calls.into_iter().map(|call| self.call(call)).collect::<Result<_, _>>()?;
                must_fit(self.hub, calls.len() + usize::from(text.is_some()))?;
                let assistant = AssistantMessage {
                    parent,
                    agent: self.session.agent_name().into(),
                    model: self.model.clone(),
                    completed: Some(self.now),
                    finish: Some(StopReason::Other),
                    usage: Usage::default(),
                    error: None,
                    kept: None,
                };
                self.push(id, Role::Assistant(assistant), text.into_iter().chain(calls).collect());
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, id: MessageId, role: Role, parts: Vec<PartBody>) {
        // What has the name of another message has none.
        let id = if self.names.insert(id.clone()) { id } else { self.hub.clock().message_id() };
        if matches!(role, Role::User(_)) {
            self.asked = Some(id.clone());
        }
        let clock = self.hub.clock();
        let parts = parts.into_iter().map(|body| Arc::new(Part { id: clock.part_id(), body })).collect();
        self.messages.push(Message { id, session: self.session.id.clone(), created: self.now, role, parts });
    }

    fn call(&mut self, call: agui::ToolCall) -> Result<PartBody, Problem> {
        let agui::ToolCall { id, function, .. } = call;
        let result = self.results.remove(&id);
        let result = result.unwrap_or_else(|| ToolResult::Failed("It is not known what came of this call".to_owned()));
        let call = if id.is_empty() { self.hub.clock().call_id() } else { CallId::parse(&id)? };
        let deepest = self.hub.limits().input_depth;
        let input = json::read(function.arguments).ok();
        let input = input.filter(|input| input.get().starts_with('{') && depth(input.get()) <= deepest);
        let input = input.map_or_else(empty_object, one_line);
        let state = ToolState::Done { input, start: self.now, end: self.now, result };
        let (alias, tool) = (function.name.as_str().into(), function.name.into());
        Ok(PartBody::Tool(ToolPart {
            provider_call: call.to_string(),
            call,
            alias,
            tool,
            request: None,
            is_cut: false,
            is_half_said: false,
            kept: None,
            state,
        }))
    }

    fn finish(mut self) -> Vec<Message> {
        let answered: HashSet<MessageId> =
            self.messages.iter().filter_map(|message| message.answers().cloned()).collect();
        for message in &mut self.messages {
            if let Role::User(said) = &mut message.role {
                // What was not answered then is not to be answered now.
                said.wants_reply = answered.contains(&message.id);
            }
        }
        self.messages
    }
}
