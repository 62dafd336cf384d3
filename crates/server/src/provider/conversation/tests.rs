use std::sync::Arc;

use handback_core::clock::{Clock, Time};
use handback_core::id::{CallId, SessionId};
use handback_core::store::{Attachment, ModelRef, Part, Span, UserMessage};

use super::*;

fn user(bodies: Vec<PartBody>) -> Arc<Message> {
    let clock = Clock::counting();
    let about = UserMessage::new("default", ModelRef::new("p", "m").unwrap());
    Arc::new(Message {
        id: clock.message_id(),
        session: SessionId::parse("ses_1").unwrap(),
        created: Time(0),
        role: Role::User(about),
        parts: bodies.into_iter().map(|body| Arc::new(Part { id: clock.part_id(), body })).collect(),
    })
}

fn assistant(model: &str, bodies: Vec<PartBody>) -> Arc<Message> {
    let mut message = Message::clone(&user(bodies));
    message.role = Role::Assistant(AssistantMessage {
        parent: message.id.clone(),
        agent: "default".into(),
        model: ModelRef::new("p", model).unwrap(),
        completed: None,
        finish: None,
        usage: Default::default(),
        error: None,
        kept: None,
    });
    Arc::new(message)
}

fn text(text: &str) -> PartBody {
    PartBody::Text { text: text.to_owned(), span: Span { start: Time(0), end: None } }
}

fn file(mime: &str, name: &str, url: impl Into<String>) -> PartBody {
    PartBody::File(Attachment { mime: mime.to_owned(), filename: Some(name.to_owned()), url: url.into() })
}

const ALL: Shown = Shown { images: true, kept: true };

/// The entries, each as its texts; images in angle brackets.
fn told(messages: &[Arc<Message>]) -> Vec<Vec<String>> {
    let session = SessionId::parse("ses_1").unwrap();
    let request = ModelRequest {
        model: "m",
        session: &session,
        system: None,
        earlier: &[],
        messages,
        tools: &[],
        most_output: 1000,
    };
    let piece = |piece: ContentPiece<'_>| match piece {
        ContentPiece::Text(text) => text.into_owned(),
        ContentPiece::Image(image) => format!("<{}>", image.file.filename.as_deref().unwrap()),
    };
    let said = |part: StepPart<'_>| match part {
        StepPart::Text(text) => text.to_owned(),
        part => format!("{part:?}"),
    };
    let (entries, _) = entries(&request, "p", ALL);
    entries
        .into_iter()
        .map(|entry| match entry {
            ChatEntry::User(pieces) => pieces.into_iter().map(piece).collect(),
            ChatEntry::Model(step) => step.parts.into_iter().map(said).collect(),
        })
        .collect()
}

fn told_file(mime: &str, url: impl Into<String>) -> String {
    told(&[user(vec![file(mime, "a", url)])]).concat().concat()
}

#[test]
fn turns_alternate_whatever_is_missing() {
    let messages = [
        user(vec![text("one")]),
        assistant("m", vec![text(" ")]),
        user(vec![text("\n"), text("two")]),
        assistant("m", vec![text("three")]),
        assistant("m", vec![text("four")]),
        user(vec![]),
    ];
    let expected = [vec!["one", "two"], vec!["three", "four"], vec!["[empty message]"]].map(|entry| entry.to_vec());
    assert_eq!(told(&messages), expected);
}

#[test]
fn what_a_model_was_cut_off_in_is_not_shown_to_it() {
    let call = |is_half_said| {
        PartBody::Tool(ToolPart {
            call: CallId::parse("c").unwrap(),
            provider_call: "p".to_owned(),
            tool: "t".into(),
            alias: "t".into(),
            request: None,
            is_cut: true,
            is_half_said,
            kept: None,
            state: ToolState::Pending { raw: String::new() },
        })
    };
    let count = |bodies| told(&[user(vec![text("one")]), assistant("m", bodies)]).len();
    assert_eq!(count(vec![text("And"), call(true)]), 1);
    assert_eq!(count(vec![text("And"), call(false)]), 2);
}

#[test]
fn only_the_newest_images_are_shown() {
    let picture = |number: usize| file("image/png", &number.to_string(), "https://example.com/a.png");
    let messages: Vec<_> = (0..=MOST_IMAGES).map(|number| user(vec![picture(number)])).collect();
    let mut expected: Vec<_> = (0..=MOST_IMAGES).map(|number| format!("<{number}>")).collect();
    expected[0] = "[attachment: 0, image/png]".to_owned();
    assert_eq!(told(&messages).concat(), expected);

    let large = format!("data:image/png;base64,{}", "A".repeat(MOST_IMAGE_BYTES / 2));
    let messages = [user(vec![file("image/png", "0", &*large), picture(1), file("image/png", "2", &*large)])];
    assert_eq!(told(&messages).concat(), ["[attachment: 0, image/png]", "<1>", "<2>"]);
}

#[test]
fn only_images_that_models_take_are_shown() {
    let cases = [
        ("image/png", "data:image/png;base64,AAAA", "<a>"),
        ("IMAGE/WEBP", "http://example.com/a", "<a>"),
        ("image/gif; x=y", "data:;base64,AAAA", "<a>"),
        ("image/svg+xml", "data:image/svg+xml;base64,AAAA", "[attachment: a, image/svg+xml]"),
        ("image/png", "data:image/png,%89PNG", "[attachment: a, image/png]"),
        ("image/png", "file:///etc/passwd", "[attachment: a, image/png]"),
        ("image/png", "blob:http://localhost/1", "[attachment: a, image/png]"),
    ];
    for (mime, url, expected) in cases {
        assert_eq!(told_file(mime, url), expected, "{mime} {url}");
    }
}

#[test]
fn texts_of_the_user_are_told() {
    let cases = [
        ("text/plain", "data:text/plain;base64,aGVsbG8=", "[attachment: a, text/plain]\nhello"),
        ("text/csv; header=1", "data:text/csv;charset=utf-8,a%2Cb%0Ac", "[attachment: a, text/csv; header=1]\na,b\nc"),
        ("application/json", "data:application/json;base64,e30=", "[attachment: a, application/json]\n{}"),
        // Neither base64 nor UTF-8, and elsewhere.
        ("text/plain", "data:text/plain;base64,!", "[attachment: a, text/plain]"),
        ("text/plain", "data:text/plain;base64,/w==", "[attachment: a, text/plain]"),
        ("text/plain", "https://example.com/a.txt", "[attachment: a, text/plain]"),
        ("application/pdf", "data:application/pdf;base64,aGVsbG8=", "[attachment: a, application/pdf]"),
    ];
    for (mime, url, expected) in cases {
        assert_eq!(told_file(mime, url), expected, "{mime} {url}");
    }
    let long = told_file("text/plain", format!("data:,{}", "é".repeat(40_000)));
    let expected =
        format!("[attachment: a, text/plain]\n{}\n[cut: 65536 of 80000 bytes are shown]", "é".repeat(32_768));
    assert_eq!(long, expected);
}

#[test]
fn names_that_models_make_up_are_made_to_fit() {
    let long = "x".repeat(70);
    let cases = [
        ("client_1-a", "client_1-a"),
        ("functions.list", "functions_list"),
        ("schön", "sch_n"),
        ("", "unknown"),
        (&long, &long[..64]),
    ];
    for (name, expected) in cases {
        assert_eq!(allowed_name(name), expected);
    }
}

#[test]
fn schemas_are_completed_and_otherwise_left_alone() {
    let cases = [
        (r#"{"type":"object","properties":{}}"#, r#"{"type":"object","properties":{}}"#),
        ("{ }", r#"{"type":"object","properties":{}}"#),
        (r##" {"$ref": "#/$defs/a"} "##, r##"{"type":"object","properties":{},"$ref": "#/$defs/a"}"##),
        (r#"{"type": "object"}"#, r#"{"properties":{},"type": "object"}"#),
        (r#"{"properties": {"type": {}}}"#, r#"{"type":"object","properties": {"type": {}}}"#),
        ("true", r#"{"type":"object","properties":{}}"#),
    ];
    for (given, expected) in cases {
        let given = RawValue::from_string(given.to_owned()).unwrap();
        let tool = ModelTool { alias: "a", id: "a", name: "a", description: "", schema: &given };
        assert_eq!(schema(&tool).get(), expected);
    }
}
