use serde_json::json;

use crate::id::ConnectionName;
use crate::store::{Role, TurnNeeds};

#[test]
fn messages_of_earlier_versions_keep_what_their_turns_need() {
    let (model, tools) = (json!({ "provider": "demo", "model": "scripted" }), json!({ "client_*": false }));
    let stored = json!({ "User": {
        "agent": "default", "model": model, "system": "Be brief.", "tools": tools, "wants_reply": true,
        "connection": "window-1",
    } });
    let Role::User(said) = serde_json::from_str(&stored.to_string()).unwrap() else { panic!("a user's") };
    let TurnNeeds { system, switches, connection, .. } = said.needs;
    assert_eq!((system.as_deref(), switches.get("client_*")), (Some("Be brief."), Some(&false)));
    assert_eq!(connection.as_ref().map(ConnectionName::as_str), Some("window-1"));
    let oldest =
        json!({ "User": { "agent": "default", "model": model, "system": null, "tools": {}, "wants_reply": false } });
    let Role::User(said) = serde_json::from_str(&oldest.to_string()).unwrap() else { panic!("a user's") };
    assert_eq!((said.wants_reply, said.needs.connection), (false, None));
}
