//! A recorded stream means the same however it is cut into pieces.

use handback_core::sessions::ModelEvent;
use handback_core::store::{Kept, StopReason, TurnError, Usage};
use proptest::prelude::*;
use serde_json::json;

use super::fake::{Fake, STREAM};
use super::{BOTH, Wire, ask, collect, settings};

const OPENAI: &str = include_str!("streams/openai.txt");
const ANTHROPIC: &str = include_str!("streams/anthropic.txt");

impl Wire {
    fn recorded(self) -> &'static str {
        match self {
            Self::OpenAi => OPENAI,
            Self::Anthropic => ANTHROPIC,
        }
    }

    fn meaning(self) -> Vec<Result<ModelEvent, TurnError>> {
        let call = |index: usize, id: &str, name: &str| ModelEvent::CallStarted {
            index,
            id: id.to_owned(),
            name: name.to_owned(),
        };
        let arguments = |index: usize, delta: &str| ModelEvent::Arguments { index, delta: delta.to_owned() };
        let title = r#"{"title": "Caf\u00e9 ☕ \"now\"", "n":1.50}"#;
        let reasoning = ModelEvent::Reasoning("Größe? 日本 🙂".to_owned());
        let says = ModelEvent::Text("Ich schaue nach… ☕🙂\n\"ja\"".to_owned());
        let events = match self {
            Self::OpenAi => vec![
                reasoning,
                says,
                call(0, "call_A", "set_title"),
                arguments(0, title),
                call(1, "call_B", "list"),
                arguments(1, "{}"),
                ModelEvent::Usage(Usage {
                    input: 70,
                    output: 20,
                    reasoning: Some(10),
                    cache_read: Some(30),
                    cache_write: None,
                }),
                ModelEvent::CallEnded { index: 0, kept: None },
                ModelEvent::CallEnded { index: 1, kept: None },
                ModelEvent::Kept(Kept::new(&json!({"spellings": ["reasoning_content"]})).unwrap()),
                ModelEvent::Stop(StopReason::ToolCalls),
            ],
            Self::Anthropic => vec![
                ModelEvent::Usage(Usage {
                    input: 25,
                    output: 1,
                    reasoning: None,
                    cache_read: Some(300),
                    cache_write: Some(40),
                }),
                reasoning,
                ModelEvent::Thought(Kept::new(&"EqQB+/==").unwrap()),
                says,
                call(0, "toolu_A", "set_title"),
                arguments(0, title),
                ModelEvent::CallEnded { index: 0, kept: None },
                call(1, "toolu_B", "list"),
                ModelEvent::CallEnded { index: 1, kept: None },
                ModelEvent::Usage(Usage {
                    input: 25,
                    output: 89,
                    reasoning: None,
                    cache_read: Some(300),
                    cache_write: Some(40),
                }),
                ModelEvent::Stop(StopReason::ToolCalls),
            ],
        };
        events.into_iter().map(Ok).collect()
    }
}

/// What the recorded stream means when it comes in the pieces of each of these ways.
async fn check<'a>(wire: Wire, ways: impl IntoIterator<Item = Vec<&'a [u8]>>) {
    let fake = Fake::start().await;
    let model = wire.model(settings(wire, &fake));
    for pieces in ways {
        let lengths: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
        let (events, ()) = tokio::join!(collect(ask(&*model)), async {
            let mut request = fake.request().await;
            request.send(STREAM).await;
            request.chunks(pieces).await;
            request.end().await;
        });
        assert_eq!(events, wire.meaning(), "in pieces of {lengths:?}");
    }
}

#[tokio::test]
async fn whole_and_byte_by_byte() {
    for wire in BOTH {
        let bytes = wire.recorded().as_bytes();
        check(wire, [vec![bytes], bytes.chunks(1).collect()]).await;
    }
}

#[tokio::test]
async fn split_at_every_byte_of_openai() {
    let bytes = OPENAI.as_bytes();
    check(Wire::OpenAi, (1..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]])).await;
}

#[tokio::test]
async fn split_at_every_byte_of_anthropic() {
    let bytes = ANTHROPIC.as_bytes();
    check(Wire::Anthropic, (1..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]])).await;
}

#[tokio::test]
async fn lines_may_end_in_any_way() {
    for wire in BOTH {
        let [returns, carriages] = ["\r\n", "\r"].map(|end| wire.recorded().replace('\n', end));
        let marked = format!("\u{feff}{}", wire.recorded());
        check(wire, [vec![returns.as_bytes()], vec![carriages.as_bytes()], marked.as_bytes().chunks(1).collect()])
            .await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn split_at_random(mut cuts in prop::collection::vec(any::<prop::sample::Index>(), 2..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for wire in BOTH {
            let mut rest = wire.recorded().as_bytes();
            let mut pieces = Vec::new();
            cuts.sort_by_key(|cut| cut.index(wire.recorded().len()));
            for cut in &cuts {
                let at = cut.index(wire.recorded().len()) - (wire.recorded().len() - rest.len());
                pieces.push(&rest[..at]);
                rest = &rest[at..];
            }
            pieces.push(rest);
            runtime.block_on(check(wire, [pieces]));
        }
    }
}
