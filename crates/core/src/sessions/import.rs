//! Conversations that only a page has, because the server lost them or never had them. They are imported as messages of
//! a session, so that they can go on.

use std::sync::Arc;

use ahash::HashSet;
use serde_json::value::RawValue;

use super::{Result, Said, Sessions};
use crate::id::{CallId, MessageId, SessionId};
use crate::schema::{depth, empty_object, one_line};
use crate::store::{
    AssistantMessage, Beginning, IfFull, Message, ModelRef, Part, PartBody, Role, Session, StopReason, StoreError,
    ToolPart, ToolResult, ToolState, Usage, UserMessage,
};

/// A message of an earlier conversation.
#[non_exhaustive]
pub enum Earlier {
    /// What the user said.
    User(Said),
    /// A step of an answer. A step without a user's message before it is left out.
    Step(Said),
}

impl Sessions {
    /// A call of an earlier conversation, with the result that the page reports.
    pub fn earlier_call(
        &self,
        call: Option<CallId>,
        tool: &str,
        input: Option<Box<RawValue>>,
        result: Option<ToolResult>,
    ) -> PartBody {
        let (now, deepest) = (self.clock().time(), self.hub().limits().input_depth);
        let call = call.unwrap_or_else(|| self.clock().call_id());
        let input = input.filter(|input| input.get().starts_with('{') && depth(input.get()) <= deepest);
        let result = result.unwrap_or_else(|| ToolResult::Failed("It is not known what came of this call".to_owned()));
        PartBody::Tool(ToolPart {
            provider_call: call.to_string(),
            call,
            alias: tool.into(),
            tool: tool.into(),
            request: None,
            is_cut: false,
            is_half_said: false,
            kept: None,
            state: ToolState::Done { input: input.map_or_else(empty_object, one_line), start: now, end: now, result },
        })
    }

    /// Converts an earlier conversation to messages of a session, without storing them.
    pub fn earlier(&self, session: &Session, model: &ModelRef, earlier: Vec<Earlier>) -> Vec<Message> {
        let clock = self.clock();
        let (now, agent) = (clock.time(), session.agent_name());
        let (mut messages, mut names, mut asked) = (Vec::<Message>::new(), HashSet::default(), None);
        for earlier in earlier {
            let (Said { message, parts }, parent) = match earlier {
                Earlier::User(said) => (said, None),
                Earlier::Step(said) => match &asked {
                    Some(asked) => (said, Some(MessageId::clone(asked))),
                    None => continue,
                },
            };
            // A message whose id is already used gets a new one.
            let named = message.filter(|id| !id.as_str().is_empty() && names.insert(id.clone()));
            let id = named.unwrap_or_else(|| clock.message_id());
            let role = match parent {
                Some(parent) => Role::Assistant(AssistantMessage {
                    parent,
                    agent: agent.into(),
                    model: model.clone(),
                    completed: Some(now),
                    finish: Some(StopReason::Other),
                    usage: Usage::default(),
                    error: None,
                    kept: None,
                }),
                None => {
                    asked = Some(id.clone());
                    Role::User(UserMessage::new(agent, model.clone()))
                }
            };
            let parts = parts.into_iter().map(|body| Arc::new(Part { id: clock.part_id(), body })).collect();
            messages.push(Message { id, session: session.id.clone(), created: now, role, parts });
        }
        let answered: HashSet<MessageId> = messages.iter().filter_map(|message| message.answers().cloned()).collect();
        for message in &mut messages {
            if let Role::User(said) = &mut message.role {
                // A message that was not answered then is not answered now.
                said.wants_reply = answered.contains(&message.id);
            }
        }
        messages
    }

    /// Stores the messages of an earlier conversation in a session that has none. Completes even if the caller goes
    /// away meanwhile.
    pub async fn import(&self, id: &SessionId, earlier: Vec<Arc<Message>>) -> Result<()> {
        Ok(self.hub().run_to_end(self.clone().keep_earlier(id.clone(), earlier)).await?)
    }

    async fn keep_earlier(self, id: SessionId, earlier: Vec<Arc<Message>>) -> Result<(), StoreError> {
        let _id_lock = self.0.id_locks.lock_session(&id).await;
        if earlier.is_empty() || !self.is_empty(&id).await? {
            return Ok(());
        }
        let session = self.find(&id).await?;
        let client = session.as_ref().and_then(|session| session.client.as_ref());
        self.must_have_storage(client, Beginning::InSession).await?;
        // The store keeps the order of writes, and writes many at once.
        let saving: Vec<_> = earlier.iter().map(|message| self.save_message(message, IfFull::Fails)).collect();
        futures_util::future::try_join_all(saving).await?;
        Ok(())
    }
}
