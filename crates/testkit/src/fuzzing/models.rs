//! The streams of models.

use handback_server::config::ProviderKind;
use handback_server::core::sessions::ModelEvent;
use handback_server::fuzzing::model_events;

use super::in_any_pieces;

/// An answer of a provider, read as OpenAI's and as Anthropic's: calls begin once and before their arguments, and a stop
/// or an error is the last of it.
pub fn model_streams(bytes: &[u8]) {
    for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
        let events = in_any_pieces(bytes, |pieces| model_events(kind, pieces));
        let is_last = |event: &Result<ModelEvent, String>| matches!(event, Err(_) | Ok(ModelEvent::Stop(_)));
        assert_eq!(events.iter().position(is_last), Some(events.len() - 1), "{events:?}");
        let mut calls = 0;
        for event in events.iter().flatten() {
            match event {
                ModelEvent::CallStarted { index, .. } => {
                    assert_eq!(*index, calls, "{events:?}");
                    calls += 1;
                }
                ModelEvent::Arguments { index, .. } | ModelEvent::CallEnded { index, .. } => {
                    assert!(*index < calls, "{events:?}");
                }
                _ => {}
            }
        }
    }
}
