//! A question to the user as an interrupt of a run.

use std::time::{Duration, SystemTime};

use handback_core::permission::Ask;
use handback_wire::agui::Interrupt;
use serde_json::{Map, Value, json};

/// Characters of an input in a question.
const SHOWN: usize = 200;

/// A question as an interrupt.
pub(super) fn of(ask: &Ask, approval_timeout: Duration) -> Interrupt {
    let expires = SystemTime::from(ask.created) + approval_timeout;
    Interrupt {
        id: ask.id.to_string(),
        reason: "tool_call".to_owned(),
        message: Some(format!("Allow {} with {}?", ask.call.tool.id, shortened(ask.call.input.get()))),
        tool_call_id: Some(ask.call.call.to_string()),
        response_schema: response_schema(),
        expires_at: Some(humantime::format_rfc3339_millis(expires).to_string()),
        metadata: None,
        subagent_run_id: None,
    }
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() { format!("{shown}…") } else { shown }
}

/// What the answer to an interrupt looks like.
fn response_schema() -> Option<Map<String, Value>> {
    let schema = json!({
        "type": "object",
        "properties": {
            "approved": {"type": "boolean", "description": "Whether the call may be made"},
            "editedArgs": {"type": "object", "description": "Arguments in place of the model's"},
            "reason": {"type": "string", "description": "Why it may not, for the model"},
            "always": {"type": "boolean", "description": "Whether all calls of this tool in this thread may be made"},
        },
        "required": ["approved"],
    });
    match schema {
        Value::Object(schema) => Some(schema),
        _ => None,
    }
}
