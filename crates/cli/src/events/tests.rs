use serde_json::Value;

use super::*;

#[test]
fn the_types_of_events_are_those_of_the_api() {
    let document: Value = serde_json::from_str(handback_server::api::operations::OPENAPI).unwrap();
    let kinds = document["components"]["schemas"]["Event"]["oneOf"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|kind| kind["properties"]["type"]["enum"][0].as_str().unwrap()).collect();
    assert_eq!(kinds, [&["server.connected"][..], &TYPES].concat());
}
