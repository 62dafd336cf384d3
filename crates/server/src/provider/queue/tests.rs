use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, Usage};
use serde_json::value::RawValue;

use super::{Channel, EventQueue, JsonText};

fn piece(json: &str) -> JsonText {
    JsonText::read(&RawValue::from_string(json.to_owned()).unwrap()).unwrap()
}

fn all(said: &mut EventQueue) -> Vec<ModelEvent> {
    std::iter::from_fn(|| said.pop()).collect()
}

#[test]
fn halves_are_joined_or_replaced() {
    let cases = [
        (&[r#""a""#, r#""b""#][..], "ab"),
        (&[r#""🎉""#], "🎉"),
        (&[r#""\ud83c\udf89""#], "🎉"),
        (&[r#""a\ud83c""#, r#""\udf89b""#], "a🎉b"),
        (&[r#""a\uD83C""#, r#""""#, r#""\uDF89""#, r#""c""#], "a🎉c"),
        (&[r#""a\ud83c""#, r#""b""#], "a\u{FFFD}b"),
        (&[r#""a\ud83cb\udf89""#, r#""é\ud83c\ud83c\udf89""#], "a\u{FFFD}b\u{FFFD}é\u{FFFD}🎉"),
        (&[r#""\udf89\ud83c""#, r#""\ud83c""#, r#""\udf89""#], "\u{FFFD}\u{FFFD}🎉"),
        (&[r#""cut \ud83c""#], "cut \u{FFFD}"),
    ];
    for (pieces, expected) in cases {
        let mut said = EventQueue::default();
        for json in pieces {
            said.piece(Channel::Text, piece(json));
        }
        said.push(ModelEvent::Stop(StopReason::Stop));
        let mut text = String::new();
        for event in all(&mut said) {
            match event {
                ModelEvent::Text(more) => text.push_str(&more),
                event => assert_eq!(event, ModelEvent::Stop(StopReason::Stop)),
            }
        }
        assert_eq!(text, expected, "{pieces:?}");
    }
}

#[test]
fn a_half_waits_for_its_own_channel_alone() {
    let mut said = EventQueue::default();
    said.piece(Channel::Arguments(0), piece(r#""\ud83c""#));
    said.push(ModelEvent::Usage(Usage::default()));
    said.piece(Channel::Arguments(0), piece(r#""\udf89\ud83c""#));
    said.piece(Channel::Arguments(1), piece(r#""\udf89""#));
    let arguments = |index, text: &str| ModelEvent::Arguments { index, delta: text.to_owned() };
    let usage = ModelEvent::Usage(Usage::default());
    assert_eq!(all(&mut said), [usage, arguments(0, "🎉"), arguments(0, "\u{FFFD}"), arguments(1, "\u{FFFD}")]);
}

#[test]
fn a_text_alone_has_no_halves() {
    assert_eq!(piece(r#""\ud83c\udf89 \ud83c""#).text(), "🎉 \u{FFFD}");
    assert!(JsonText::read(RawValue::NULL).is_none());
}
