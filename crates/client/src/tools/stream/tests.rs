use super::*;

#[test]
fn events_are_told_apart_and_those_that_cannot_be_read_are_passed_over() {
    let mut cursor = None;
    let mut read = |block: Sse| -> (Option<String>, Option<String>) {
        let event = super::read(block, &ServerClock::new(None), &mut cursor).map(|event| match event {
            ConnectionEvent::Request(request, _) => request.request_id,
            ConnectionEvent::Cancel(cancel) => cancel.request_id,
        });
        (event, cursor.clone())
    };
    let block =
        |event: &str, data: &str| Sse { event: Some(event.to_owned()), data: Some(data.to_owned()), ..Sse::default() };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(read(block("tool-cancel", r#"{"requestID":"a","reason":"b"}"#)), (text("a"), None));
    assert_eq!(read(block("tool-request", "{")), (None, None));
    assert_eq!(read(block("ping", "")), (None, None));
    assert_eq!(read(Sse { id: text("e-1"), ..Sse::default() }), (None, text("e-1")));
    assert_eq!(read(block("ping", "")), (None, text("e-1")));
    assert_eq!(read(Sse { id: text(""), ..Sse::default() }), (None, None));
}
