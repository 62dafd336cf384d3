//! Parts of conversations, for tests.

use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{CallId, MessageId, PartId, SessionId};
use handback_core::store::{AssistantMessage, Message, ModelRef, Part, PartBody, Role, ToolPart, ToolState, Usage};

/// The part `prt_{number}` with the call `cal_{number}` of the tool `pick`.
pub(super) fn call(number: &str, state: ToolState) -> Arc<Part> {
    let tool = ToolPart {
        call: CallId::parse(&format!("cal_{number}")).unwrap(),
        provider_call: format!("call_{number}"),
        alias: "pick".into(),
        tool: "pick".into(),
        request: None,
        is_cut: false,
        is_half_said: false,
        kept: None,
        state,
    };
    Arc::new(Part { id: PartId::parse(&format!("prt_{number}")).unwrap(), body: PartBody::Tool(tool) })
}

/// The answer `msg_1`, which the model has begun.
pub(super) fn answer(parts: Vec<Arc<Part>>) -> Message {
    Message {
        id: MessageId::parse("msg_1").unwrap(),
        session: SessionId::parse("thread").unwrap(),
        created: Time(0),
        role: Role::Assistant(AssistantMessage {
            parent: MessageId::parse("said").unwrap(),
            agent: "default".into(),
            model: ModelRef::parse("a/b").unwrap(),
            completed: None,
            finish: None,
            usage: Usage::default(),
            error: None,
            kept: None,
        }),
        parts,
    }
}
