use super::*;

#[test]
fn events_are_told_apart_and_those_that_cannot_be_read_are_passed_over() {
    let kind = |event: &str, data: &str| {
        let event = Sse { event: Some(event.to_owned()), data: Some(data.to_owned()), ..Sse::default() };
        match read(&event) {
            Known::Request(request) => request.request_id,
            Known::Cancel(cancel) => cancel.request_id,
            Known::Other => "other".to_owned(),
        }
    };
    assert_eq!(kind("tool-cancel", r#"{"requestID":"a","reason":"b"}"#), "a");
    assert_eq!(kind("tool-request", "{"), "other");
    assert_eq!(kind("ping", ""), "other");
    assert!(matches!(read(&Sse { id: Some("e-1".to_owned()), ..Sse::default() }), Known::Other));
}
