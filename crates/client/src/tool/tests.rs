use super::*;

#[derive(Debug, thiserror::Error)]
#[error("cannot open it")]
struct Outer(#[source] std::io::Error);

#[test]
fn an_error_is_told_with_its_causes_each_once() {
    let cause = || std::io::Error::other("disk on fire");
    assert_eq!(ToolError::from(Outer(cause())).message(), "cannot open it: disk on fire");
    assert_eq!(ToolError::from(cause()).message(), "disk on fire");
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct Nested {
    inner: Vec<Inner>,
    text: Option<String>,
}

#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is wanted")]
struct Inner {
    count: u8,
}

#[test]
fn a_schema_is_in_one_piece() {
    let schema: serde_json::Value = serde_json::from_str(schema_of::<Nested>().unwrap().get()).unwrap();
    let inner = serde_json::json!({
        "type": "object", "required": ["count"],
        "properties": {"count": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 255}},
    });
    let expected = serde_json::json!({
        "type": "object", "required": ["inner"],
        "properties": {"inner": {"type": "array", "items": inner}, "text": {"type": ["string", "null"]}},
    });
    assert_eq!(schema, expected);
}
