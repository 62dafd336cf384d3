use serde_json::json;

use super::*;

/// Whether the model counts as done after each of these chunks, all of which have a reason to stop.
fn is_done(deltas: &[Value]) -> Vec<bool> {
    let (mut decoder, mut said) = (Decoder::default(), Said::default());
    let read = |delta: &Value| {
        let chunk = json!({ "choices": [{ "delta": delta, "finish_reason": "stop" }] });
        decoder.read(&chunk.to_string(), &mut said).unwrap();
        decoder.is_done()
    };
    deltas.iter().map(read).collect()
}

#[test]
fn a_reason_to_stop_with_every_chunk_is_none() {
    let call = |arguments: &str| json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f", "arguments": arguments } }] });
    assert_eq!(is_done(&[json!({ "content": "a" })]), [true]);
    assert_eq!(is_done(&[json!({ "content": "a" }), json!({ "content": "b" })]), [true, false]);
    assert_eq!(is_done(&[call("{}")]), [true]);
    assert_eq!(is_done(&[call("{\"x\":"), call("1}")]), [false, false]);
}
