use serde_json::json;

use super::ChatRequest;

#[test]
fn tools_are_a_list_or_an_object() {
    let read = |tools: serde_json::Value| {
        let request: ChatRequest = serde_json::from_str(&json!({ "tools": tools }).to_string()).unwrap();
        request.tools.map(|tools| serde_json::to_value(tools).unwrap())
    };
    let pick = json!({ "name": "pick", "description": "Picks", "parameters": { "type": "object" } });
    let bare = json!({ "name": "bare", "description": null, "parameters": null });
    let by_name = json!({ "bare": {}, "pick": { "description": "Picks", "parameters": { "type": "object" } } });
    assert_eq!(read(json!([{ "name": "bare" }, pick])), Some(json!([bare, pick])));
    assert_eq!(read(by_name), Some(json!([bare, pick])));
    assert_eq!(read(json!({})), Some(json!([])));
    assert_eq!(read(json!(null)), None);
}
