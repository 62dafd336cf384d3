//! Schemas that are none, that lead elsewhere, or that are made to keep the server busy.

use futures_util::FutureExt;
use handback_testkit::{Answer, TestServer};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{SOON, complaint, state};

async fn register(server: &TestServer, schema: &Value) -> Answer {
    let body = json!({ "clientID": "tab", "tools": [{ "id": "hostile", "parameters": schema }] });
    let answer = tokio::time::timeout(SOON, server.post("/client-tools/register", body)).await;
    answer.unwrap_or_else(|_| panic!("no answer within {SOON:?} for {schema:.200}"))
}

/// Calls the tool; it is answered soon, whatever with.
async fn call(server: &TestServer, input: &Value) -> Answer {
    let body = json!({ "toolID": "client_tab_hostile", "input": input, "wait": false });
    let answer = tokio::time::timeout(SOON, server.post("/client-tools/execute", body)).await;
    answer.unwrap_or_else(|_| panic!("no answer within {SOON:?} for an input"))
}

#[tokio::test]
async fn a_schema_that_does_not_compile_is_refused_with_the_name_of_its_tool() {
    let server = TestServer::apart().await;
    let before = state(&server).await;
    let bad = [
        json!({ "type": "nonsense" }),
        json!({ "type": 5 }),
        json!({ "type": ["string", "nonsense"] }),
        json!({ "properties": 5 }),
        json!({ "properties": { "a": 5 } }),
        json!({ "required": "a" }),
        json!({ "required": [5] }),
        json!({ "enum": 5 }),
        json!({ "minimum": "x" }),
        json!({ "maxLength": -1 }),
        json!({ "pattern": 5 }),
        json!({ "properties": { "a": { "pattern": "(" } } }),
        json!({ "properties": { "a": { "pattern": "[z-a]" } } }),
        json!({ "patternProperties": { "(": {} } }),
        json!({ "items": 5 }),
        json!({ "allOf": {} }),
        json!({ "allOf": [5] }),
        json!({ "$ref": 5 }),
        json!({ "$ref": "#/$defs/missing" }),
        json!({ "$ref": "#/properties/~2" }),
        json!({ "$defs": 5 }),
        json!({ "multipleOf": 0 }),
    ];
    for schema in bad {
        let answer = register(&server, &schema).await;
        assert_eq!(complaint(&answer), None, "{schema}");
        assert!(answer.error().contains("hostile"), "{schema}: {answer:?}");
        assert_eq!(state(&server).await, before, "{schema}");
    }
}

#[tokio::test]
async fn a_reference_to_elsewhere_is_refused_and_not_followed() {
    let server = TestServer::apart().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let before = state(&server).await;
    let bad = [
        json!({ "$ref": format!("{url}/schema.json") }),
        json!({ "properties": { "a": { "$ref": format!("{url}/schema.json#/x") } } }),
        json!({ "$id": format!("{url}/base/"), "properties": { "a": { "$ref": "relative.json" } } }),
        json!({ "$id": format!("{url}/base/"), "$ref": "relative.json" }),
        json!({ "$schema": format!("{url}/meta"), "type": "object", "properties": {} }),
        json!({ "$dynamicRef": format!("{url}/schema.json#x") }),
        json!({ "$ref": "file:///etc/passwd" }),
        json!({ "$ref": "file:///etc/hostname#" }),
        json!({ "$ref": "/etc/passwd" }),
        json!({ "$ref": "../../etc/passwd" }),
        json!({ "$ref": "https://json-schema.example/x" }),
        json!({ "$ref": "urn:example:x" }),
        json!({ "$ref": "data:application/json,{}" }),
    ];
    for schema in bad {
        let answer = register(&server, &schema).await;
        assert_eq!(complaint(&answer), None, "{schema}");
        assert!(!answer.error().contains("root:"), "{schema}: {answer:?}");
        assert_eq!(state(&server).await, before, "{schema}");
    }
    assert!(listener.accept().now_or_never().is_none(), "somebody came to fetch a schema");
}

#[tokio::test]
async fn a_reference_that_leads_back_to_itself_is_refused_or_harmless() {
    let server = TestServer::apart().await;
    let endless = [
        json!({ "$ref": "#" }),
        json!({ "$defs": { "a": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" }),
        json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } }, "$ref": "#/$defs/a" }),
        json!({ "allOf": [{ "$ref": "#" }] }),
        json!({ "anyOf": [{ "$ref": "#" }, { "$ref": "#" }] }),
        json!({ "not": { "$ref": "#" } }),
        json!({ "if": { "$ref": "#" }, "then": { "$ref": "#" } }),
        json!({ "type": "object", "dependentSchemas": { "a": { "$ref": "#" } } }),
        json!({ "$recursiveRef": "#" }),
        json!({ "$dynamicAnchor": "x", "$dynamicRef": "#x" }),
    ];
    for schema in endless {
        let answer = register(&server, &schema).await;
        if answer.status == 200 {
            for input in [json!({}), json!({ "a": { "a": {} } })] {
                let answer = call(&server, &input).await;
                assert!([202, 400].contains(&answer.status), "{schema}: {answer:?}");
            }
        } else {
            assert_eq!(complaint(&answer), None, "{schema}");
        }
    }
    assert_eq!(server.get("/client-tools/tools").await.status, 200);
}

#[tokio::test]
async fn a_schema_of_a_tree_is_taken_and_checked_at_every_level() {
    let server = TestServer::apart().await;
    let tree = json!({
        "$defs": { "node": {
            "type": "object", "required": ["name"],
            "properties": { "name": { "type": "string" }, "children": { "items": { "$ref": "#/$defs/node" } } },
        } },
        "$ref": "#/$defs/node",
    });
    assert_eq!(register(&server, &tree).await.status, 200);
    let leaf = json!({ "name": "leaf" });
    assert_eq!(call(&server, &json!({ "name": "root", "children": [leaf, leaf] })).await.status, 202);
    let bad = json!({ "name": "root", "children": [{ "name": "twig", "children": [{ "name": 5 }] }] });
    let answer = call(&server, &bad).await;
    assert!(answer.must_fail(400, "INVALID_REQUEST").contains("/children/0/children/0/name"), "{answer:?}");
}

#[tokio::test]
async fn a_pattern_that_makes_others_backtrack_is_checked_soon() {
    let server = TestServer::apart().await;
    let long = format!("{}!", "a".repeat(100_000));
    for pattern in ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(.*a){25}$", "^([a-z]+)*$", "^(a?){50}a{50}$"] {
        let schema = json!({ "properties": { "x": { "type": "string", "pattern": pattern } } });
        let answer = register(&server, &schema).await;
        assert_eq!(answer.status, 200, "{pattern}: {answer:?}");
        let answer = call(&server, &json!({ "x": long })).await;
        assert!([202, 400].contains(&answer.status), "{pattern}: {}", answer.status);
    }
}

#[tokio::test]
async fn a_pattern_that_is_too_large_when_compiled_is_refused() {
    let server = TestServer::apart().await;
    for pattern in ["((a{100}){100}){100}", "(((a{1,100}){1,100}){1,100}){1,100}", "\\w{10000}{100}"] {
        let schema = json!({ "properties": { "x": { "pattern": pattern } } });
        let answer = register(&server, &schema).await;
        assert_eq!(complaint(&answer), None, "{pattern}");
        let names = json!({ "patternProperties": { pattern: {} } });
        assert_eq!(complaint(&register(&server, &names).await), None, "{pattern} for names");
    }
}

/// A schema of a few lines whose references double with each level.
fn doubling(levels: usize, keyword: &str) -> Value {
    let mut definitions = serde_json::Map::new();
    for n in 0..levels {
        let next = json!({ "$ref": format!("#/$defs/n{}", n + 1) });
        definitions.insert(format!("n{n}"), json!({ keyword: [next, next] }));
    }
    definitions.insert(format!("n{levels}"), json!({ "type": "object", "required": ["never"] }));
    json!({ "$defs": definitions, "$ref": "#/$defs/n0" })
}

#[tokio::test]
async fn a_schema_that_grows_with_each_level_does_not_hang_the_server() {
    let server = TestServer::apart().await;
    for keyword in ["allOf", "anyOf", "oneOf"] {
        for levels in [16, 24, 30] {
            let answer = register(&server, &doubling(levels, keyword)).await;
            if answer.status == 200 {
                for input in [json!({}), json!({ "never": 1 })] {
                    let answer = call(&server, &input).await;
                    assert!([202, 400].contains(&answer.status), "{keyword} {levels}: {answer:?}");
                }
            } else {
                assert_eq!(complaint(&answer), None, "{keyword} {levels}");
            }
            let other = tokio::time::timeout(SOON, server.get("/client-tools/clients")).await;
            assert_eq!(other.expect("others are served").status, 200);
        }
    }
}

#[tokio::test]
async fn an_input_that_multiplies_the_work_of_a_recursive_schema_is_checked_soon() {
    let server = TestServer::apart().await;
    // Each level of the input is checked against each branch: 3 to the power of the depth, if done naively.
    let branch = json!({ "type": "object", "properties": { "a": { "$ref": "#" } } });
    let schema = json!({ "anyOf": [
        { "allOf": [branch, { "required": ["never"] }] },
        { "allOf": [branch, { "required": ["neither"] }] },
        { "allOf": [branch, { "maxProperties": 0 }] },
    ] });
    let answer = register(&server, &schema).await;
    if answer.status == 200 {
        let mut input = json!({ "x": 1 });
        for _ in 0..100 {
            input = json!({ "a": input });
        }
        let answer = call(&server, &input).await;
        assert!([202, 400].contains(&answer.status), "{answer:?}");
    } else {
        assert_eq!(complaint(&answer), None);
    }
    let other = tokio::time::timeout(SOON, server.get("/client-tools/clients")).await;
    assert_eq!(other.expect("others are served").status, 200);
}

#[tokio::test]
async fn an_input_that_is_long_or_hard_to_reckon_with_is_checked_soon() {
    let server = TestServer::apart().await;
    let many: Vec<Value> = (0..20_000).map(|n| json!({ "n": n })).collect();
    let cases = [
        (json!({ "properties": { "x": { "uniqueItems": true } } }), json!({ "x": many })),
        (json!({ "properties": { "x": { "contains": { "const": { "n": -1 } } } } }), json!({ "x": many })),
        (json!({ "properties": { "x": { "multipleOf": 1e-300 } } }), json!({ "x": 1e300 })),
        (json!({ "properties": { "x": { "multipleOf": 0.000_000_1 } } }), json!({ "x": u64::MAX })),
        (json!({ "properties": { "x": { "maxLength": 3 } } }), json!({ "x": "é".repeat(300_000) })),
    ];
    for (schema, input) in cases {
        assert_eq!(register(&server, &schema).await.status, 200, "{schema}");
        let answer = call(&server, &input).await;
        assert!([202, 400].contains(&answer.status), "{schema}: {}", answer.status);
        assert!(answer.body.to_string().len() < 2000, "{schema}: the answer repeats the input");
    }
}

/// A chain of references, each of which has to know what the one before has evaluated.
fn chain(links: usize) -> Value {
    let link = |n: usize| {
        let next = json!({ "$ref": format!("#/$defs/n{}", n + 1), "unevaluatedProperties": false });
        (format!("n{n}"), next)
    };
    let mut definitions: serde_json::Map<String, Value> = (0..links).map(link).collect();
    definitions.insert(format!("n{links}"), json!({ "type": "object" }));
    json!({ "$defs": definitions, "$ref": "#/$defs/n0" })
}

/// Schemas that each stopped a server: by their recursion, by their work, by their patterns.
fn hostile() -> Vec<Value> {
    let looping = json!({ "properties": { "a": { "$ref": "#/$defs/n0" } } });
    let steps = ["allOf", "not", "if"].map(|step| {
        let mut definitions = serde_json::Map::new();
        for n in 0..200 {
            let next = json!({ "$ref": format!("#/$defs/n{}", n + 1) });
            definitions
                .insert(format!("n{n}"), if step == "allOf" { json!({ step: [next] }) } else { json!({ step: next }) });
        }
        definitions.insert("n200".to_owned(), looping.clone());
        json!({ "$defs": definitions, "$ref": "#/$defs/n0" })
    });
    let names = json!({ "properties": { "x": { "propertyNames": doubling(60, "allOf") } } });
    let encoded = doubling(60, "anyOf").to_string().replace("#/$defs", "#/%24defs");
    let embedded = json!({ "$ref": "urn:e", "$defs": { "e": { "$id": "urn:e", "anyOf": [{ "$ref": "#/$defs/n0" }],
        "$defs": doubling(60, "anyOf")["$defs"] } } });
    let encoded = serde_json::from_str(&encoded).unwrap();
    let pattern = json!({ "properties": { "text": { "pattern": "[ab]*a[ab]{900}c" } } });
    [vec![chain(721), names, encoded, embedded, pattern], steps.to_vec()].concat()
}

/// An input that is as deep and as long as it may be.
fn burden() -> Value {
    let deep = (0..125).fold(json!({}), |inner, _| json!({ "a": inner }));
    json!({ "a": deep, "x": { "never": 1 }, "text": "ab".repeat(100_000) })
}

#[tokio::test]
async fn hostile_schemas_and_inputs_leave_the_server_to_others() {
    let server = TestServer::apart().await;
    let others_are_served = async || {
        let answer = tokio::time::timeout(SOON, server.get("/healthz")).await;
        assert_eq!(answer.expect("others are served").status, 200);
    };
    for schema in hostile() {
        let answer = register(&server, &schema).await;
        if answer.status == 200 {
            let answer = call(&server, &burden()).await;
            assert!([202, 400].contains(&answer.status), "{answer:?}");
        } else {
            assert_eq!(complaint(&answer), None, "{schema:.200}");
        }
        others_are_served().await;
        let text = "call hostile ".to_owned() + &json!({ "a": { "a": { "a": 1 } }, "x": { "never": 1 } }).to_string();
        let tool = json!({ "name": "hostile", "description": "", "parameters": schema });
        let message = json!({ "id": "m", "role": "user", "parts": [{ "type": "text", "text": text }] });
        let chat = json!({ "id": "hostile", "messages": [message], "tools": [tool] });
        let said = json!({ "id": "m", "role": "user", "content": text });
        let run = json!({ "threadId": "t", "runId": "r", "messages": [said], "tools": [tool], "state": {}, "context": [],
            "forwardedProps": {} });
        for (path, body) in [("/api/chat", chat), ("/agui/default", run)] {
            let asked = server.http.post(format!("{}{path}", server.url)).json(&body).send();
            let answer = tokio::time::timeout(SOON, asked).await.expect("an answer begins").unwrap();
            assert!([200, 400].contains(&answer.status().as_u16()), "{path}: {answer:?}");
            others_are_served().await;
        }
    }
}

#[tokio::test]
async fn a_registration_full_of_patterns_does_not_hold_others_up() {
    let server = TestServer::apart().await;
    let tool = |n: usize| {
        let pattern =
            |m: usize| (format!("p{m}"), json!({ "pattern": format!("^(?:x{n}|y{m}|[a-z]{{1,{m}}}){{9}}$") }));
        let properties: serde_json::Map<String, Value> = (0..64).map(pattern).collect();
        json!({ "id": format!("t{n}"), "parameters": { "properties": properties } })
    };
    let body = json!({ "clientID": "tab", "tools": (0..128).map(tool).collect::<Vec<_>>() });
    let registering = server.post("/client-tools/register", body);
    let asking = async {
        for _ in 0..20 {
            let answer = tokio::time::timeout(SOON, server.get("/healthz")).await;
            assert_eq!(answer.expect("others are served").status, 200);
        }
    };
    let (registered, ()) = tokio::join!(registering, asking);
    assert!([200, 400].contains(&registered.status), "{registered:?}");
}
