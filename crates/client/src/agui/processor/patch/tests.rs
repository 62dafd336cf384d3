use serde_json::json;

use super::*;

fn applied(mut value: Value, operations: &Value) -> (Value, Result<(), String>) {
    let result = apply(&mut value, operations.as_array().unwrap());
    (value, result)
}

#[test]
fn all_operations_change_a_value() {
    let operations = json!([
        {"op": "test", "path": "/a", "value": 1}, {"op": "add", "path": "/list/-", "value": null},
        {"op": "replace", "path": "/a", "value": {"b": [1]}}, {"op": "copy", "from": "/a/b", "path": "/c"},
        {"op": "move", "from": "/a", "path": "/d"}, {"op": "remove", "path": "/list/0"},
    ]);
    let (value, result) = applied(json!({"a": 1, "list": [0]}), &operations);
    assert_eq!((value, result), (json!({"c": [1], "d": {"b": [1]}, "list": [null]}), Ok(())));
}

#[test]
fn what_fails_leaves_the_value_as_it_was() {
    let value = json!({"a": {"b": [1, 2]}, "c": "text"});
    let fine = json!({"op": "replace", "path": "/a/b/0", "value": 7});
    for wrong in [
        json!({"op": "remove", "path": "/x"}),
        json!({"op": "test", "path": "/c", "value": "other"}),
        json!({"op": "add", "path": "/x/y", "value": 1}),
        json!({"op": "replace", "path": "no pointer", "value": 1}),
        // Fails only after it has taken away what it moves.
        json!({"op": "move", "from": "/a", "path": "/x/y"}),
        json!({"op": "move", "from": "/a", "path": "/a/b"}),
        json!({"op": "copy", "from": "/x", "path": "/y"}),
        json!({"op": "unknown", "path": ""}),
        json!("no operation"),
    ] {
        let (after, result) = applied(value.clone(), &json!([fine, {"op": "remove", "path": "/c"}, wrong]));
        assert_eq!((after, result.is_err()), (value.clone(), true), "{wrong}");
    }
}

#[test]
fn copies_of_copies_do_not_fill_the_memory() {
    let mut operations = vec![json!({"op": "add", "path": "/x", "value": ["x".repeat(1_000)]})];
    operations.extend((0..64).map(|_| json!({"op": "copy", "from": "/x", "path": "/x/-"})));
    let (value, result) = applied(json!({}), &json!(operations));
    assert_eq!((value, result), (json!({}), Err("it would be larger than 16777216 bytes".to_owned())));
}

#[test]
fn a_value_does_not_become_deeper_than_a_stack_can_take() {
    let long = "/x".repeat(129);
    let (_, result) = applied(json!({}), &json!([{"op": "add", "path": long, "value": 1}]));
    assert_eq!(result, Err("a path has more than 128 names".to_owned()));
    // Each move puts all that there is one level lower.
    let mut operations = vec![json!({"op": "add", "path": "/x", "value": {}})];
    operations.extend((0..1_000).flat_map(|_| {
        [
            json!({"op": "add", "path": "/y", "value": {}}),
            json!({"op": "move", "from": "/x", "path": "/y/x"}),
            json!({"op": "move", "from": "/y", "path": "/x"}),
        ]
    }));
    let (value, result) = applied(json!({}), &json!(operations));
    assert_eq!((value, result), (json!({}), Err("it would be more than 256 deep".to_owned())));
}
