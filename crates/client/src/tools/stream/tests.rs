use super::*;

#[test]
fn events_are_told_apart_and_those_that_cannot_be_read_are_passed_over() {
    let read = |block: Sse| -> Vec<String> {
        let name = |incoming| match incoming {
            Incoming::Request(request, _) => request.request_id,
            Incoming::Cancel(cancel) => cancel.request_id,
            Incoming::Seen(id) => format!("seen {id:?}"),
        };
        super::read(block, &ServerClock::new(None)).map(name).collect()
    };
    let event = |event: &str, data: &str| {
        read(Sse { event: Some(event.to_owned()), data: Some(data.to_owned()), ..Sse::default() })
    };
    assert_eq!(event("tool-cancel", r#"{"requestID":"a","reason":"b"}"#), ["a"]);
    assert!(event("tool-request", "{").is_empty());
    assert!(event("ping", "").is_empty());
    assert_eq!(read(Sse { id: Some("e-1".to_owned()), ..Sse::default() }), [r#"seen Some("e-1")"#]);
    assert_eq!(read(Sse { id: Some(String::new()), ..Sse::default() }), ["seen None"]);
}
