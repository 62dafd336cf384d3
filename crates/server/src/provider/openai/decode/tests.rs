use serde_json::json;

use super::*;

/// Whether the model counts as done after each of these chunks, all of which have this reason to stop.
fn is_done(reason: &str, deltas: &[Value]) -> Vec<bool> {
    let (mut decoder, mut said) = (Decoder::default(), EventQueue::default());
    let read = |delta: &Value| {
        let chunk = json!({ "choices": [{ "delta": delta, "finish_reason": reason }] });
        decoder.read(&chunk.to_string(), &mut said).unwrap();
        decoder.is_done()
    };
    deltas.iter().map(read).collect()
}

#[test]
fn a_reason_to_stop_with_every_chunk_is_none() {
    let call = |arguments: &str| json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f", "arguments": arguments } }] });
    assert_eq!(is_done("stop", &[json!({ "content": "a" })]), [true]);
    assert_eq!(is_done("stop", &[json!({ "content": "a" }), json!({ "content": "b" })]), [true, false]);
    assert_eq!(is_done("stop", &[call("{}")]), [true]);
    assert_eq!(is_done("stop", &[call("{\"x\":"), call("1}")]), [false, false]);
    let long = format!("{{\"x\":\"\\\"{}\"}}", "[".repeat(1 << 20));
    assert_eq!(is_done("tool_calls", &[call(&long)]), [true]);
    // There was no room for more.
    assert_eq!(is_done("length", &[call("{\"x\":")]), [true]);
}
