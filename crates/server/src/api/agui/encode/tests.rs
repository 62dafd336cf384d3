use std::sync::Arc;

use super::super::samples::{answer, call};
use super::*;

/// Each reader of a run counts its events. So the same turn is the same events to everybody.
#[test]
fn what_is_cut_off_ends_in_the_order_in_which_it_began() {
    let head = RunHead::new(&SessionId::parse("thread").unwrap(), &RunId::parse("run").unwrap());
    let mut encoder = Encoder::new(head);
    let step = answer(Vec::new());
    encoder.event(&TurnEvent::StepBegan(Arc::new(step.clone())));
    for number in 10..30 {
        let part = call(&number.to_string(), ToolState::Pending { raw: String::new() });
        encoder.event(&TurnEvent::Part { message: step.id.clone(), part });
    }
    encoder.event(&TurnEvent::Restarted { answers: Vec::new(), begun: None });
    let ended: Vec<String> = encoder
        .take()
        .into_iter()
        .filter_map(|body| match body {
            Body::ToolCallEnd { tool_call_id } => Some(tool_call_id),
            _ => None,
        })
        .collect();
    let begun: Vec<String> = (10..30).map(|number| format!("cal_{number}")).collect();
    assert_eq!(ended, begun);
}
