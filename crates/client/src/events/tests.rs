use super::*;

#[test]
fn events_are_read_in_any_order_and_unknown_ones_are_passed_over() {
    let read = |data: &str| decode(data).map(|event| serde_json::to_string(&event).unwrap());
    let idle = r#"{"type":"session.idle","properties":{"sessionID":"ses_1"}}"#;
    assert_eq!(read(idle).as_deref(), Some(idle));
    let turned = r#"{"id":"evt_1","properties":{"extra":1,"sessionID":"ses_1"},"type":"session.idle"}"#;
    assert_eq!(read(turned).as_deref(), Some(idle));
    let part = r#"{"properties":{"sessionID":"s","part":{"id":"p","sessionID":"s","messageID":"m","type":"tool","state":{"status":"running","input":{"a":1.0}}}},"type":"message.part.updated"}"#;
    assert!(read(part).unwrap().contains(r#""input":{"a":1.0}"#));
    for other in ["", "{", "[]", r#"{"type":"session.idle"}"#, r#"{"type":"lsp.updated","properties":{}}"#] {
        assert_eq!(read(other), None, "{other}");
    }
}
