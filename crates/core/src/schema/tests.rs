mod nasty;
mod suite;

use serde_json::json;

use super::*;

fn compile(text: &str) -> Result<Schema, SchemaError> {
    Schema::compile(&raw(text), &Limits::default())
}

fn check(schema: &str, input: &str) -> Result<(), String> {
    compile(schema).unwrap().check(&raw(input), &Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn an_input_that_does_not_fit_is_told_where_and_why() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"object","properties":{"b":{"type":"integer"}}}},"required":["a"]}"#;
    assert_eq!(check(schema, r#"{"a":{"b":1}}"#), Ok(()));
    assert_eq!(check(schema, r#"{"a":{"b":"x"}}"#).unwrap_err(), r#"at /a/b: "x" is not of type "integer""#);
    assert_eq!(check(schema, "{}").unwrap_err(), r#"the input: "a" is a required property"#);
}

#[test]
fn an_input_is_an_object_whatever_the_schema_says() {
    for schema in ["{}", r#"{"type":"object"}"#, r#"{"title":"anything"}"#] {
        assert_eq!(check(schema, r#"{"any":1}"#), Ok(()));
        for input in ["1", "\"x\"", "[]", "null", "true"] {
            assert!(check(schema, input).is_err(), "{schema} {input}");
        }
    }
}

#[test]
fn the_addresses_of_subschemas_are_short() {
    let inner: Vec<Value> = (0..1_000).map(|n| json!({ "$id": format!("{n}") })).collect();
    let schema = |base: usize| json!({ "$id": format!("http://h/{}/", "x".repeat(base)), "allOf": inner });
    assert!(compile::compile(&schema(500), &BOUNDS).is_ok());
    assert!(compile::compile(&schema(2_000), &BOUNDS).is_err_and(|error| error.contains("1024 bytes")));
}

#[test]
fn an_error_does_not_repeat_a_large_input() {
    let input = format!(r#"{{"a":"{}"}}"#, "x".repeat(100_000));
    let error = check(r#"{"properties":{"a":{"type":"integer"}}}"#, &input).unwrap_err();
    assert!(error.len() < 1_000, "{}", error.len());
}

#[test]
fn schemas_that_cannot_be_used_are_refused() {
    for bad in ["true", "[]", "1", r#"{"type":"nonsense"}"#, r#"{"properties":5}"#, r#"{"pattern":"("}"#] {
        assert!(compile(bad).is_err(), "{bad}");
    }
    let limits = Limits::default();
    let large = format!(r#"{{"description":"{}"}}"#, "x".repeat(limits.schema_bytes));
    assert!(matches!(compile(&large), Err(SchemaError::TooLarge { .. })));
    let deep = format!("{}{}", r#"{"not":"#.repeat(32) + "{}", "}".repeat(32));
    assert_eq!(compile(&deep).unwrap_err(), SchemaError::TooDeep { allowed: 32 });
}

#[test]
fn nothing_is_ever_fetched() {
    for reference in ["file:///etc/passwd", "http://127.0.0.1:9/x", "https://example.com/s.json"] {
        let schema = format!(r#"{{"$ref":"{reference}"}}"#);
        let error = compile(&schema).unwrap_err().to_string();
        assert!(error.contains("not followed"), "{error}");
    }
    assert!(compile(r#"{"$ref":"other.json"}"#).is_err());
    assert_eq!(check(r##"{"$ref":"#/$defs/x","$defs":{"x":{"required":["a"]}}}"##, r#"{"a":1}"#), Ok(()));
}

#[test]
fn hostile_patterns_and_references_end() {
    let hostile = r#"{"properties":{"a":{"pattern":"^(a+)+$"}}}"#;
    let input = format!(r#"{{"a":"{}b"}}"#, "a".repeat(10_000));
    assert!(check(hostile, &input).is_err());
    for endless in [
        r##"{"$ref":"#"}"##,
        r##"{"not":{"$ref":"#"}}"##,
        r##"{"dependentSchemas":{"a":{"if":true,"then":{"$ref":"#"}}}}"##,
        r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}"##,
        r##"{"anyOf":[{"$ref":"#"},{"type":"string"}]}"##,
    ] {
        let error = compile(endless).unwrap_err().to_string();
        assert!(error.contains("without a step into the input"), "{error}");
    }
}

/// A schema whose every level doubles the work of checking it.
fn doubling(levels: usize, combine: &str) -> String {
    let level = |n: usize| {
        format!(r##""n{n}":{{"{combine}":[{{"$ref":"#/$defs/n{m}"}},{{"$ref":"#/$defs/n{m}"}}]}}"##, m = n + 1)
    };
    let defs: Vec<String> = (0..levels).map(level).collect();
    format!(r##"{{"$ref":"#/$defs/n0","$defs":{{{},"n{levels}":{{"required":["a"]}}}}}}"##, defs.join(","))
}

#[test]
fn schemas_that_explode_are_refused_with_the_input_that_makes_them() {
    for (combine, input) in [("allOf", r#"{"a":1}"#), ("anyOf", "{}"), ("oneOf", "{}")] {
        let error = check(&doubling(40, combine), input).unwrap_err();
        assert!(error.contains("too much work"), "{error}");
        let few = check(&doubling(8, combine), r#"{"a":1}"#);
        assert_eq!(few.is_ok(), combine != "oneOf", "{few:?}");
    }
}

#[test]
fn recursion_is_followed_as_deep_as_an_input_may_be_unless_it_multiplies() {
    let input = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    for tree in [
        r##"{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"}}}"##,
        r##"{"properties":{"a":{"$ref":"#/$defs/t"}},"$defs":{"t":{"properties":{"a":{"$ref":"#/$defs/t"}}}}}"##,
        r##"{"anyOf":[{"properties":{"b":{"items":{"$ref":"#"}}}},{"properties":{"a":{"$ref":"#"}}}]}"##,
        r##"{"allOf":[{"$ref":"#/$defs/x"}],"$defs":{"x":{"additionalProperties":{"$ref":"#"}}}}"##,
    ] {
        assert_eq!(check(tree, &input(127)), Ok(()), "{tree}");
    }
    let branch = r##"{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"required":["never"]}]}"##;
    let multiplying = format!(r#"{{"anyOf":[{branch},{branch},{branch}]}}"#);
    assert!(check(&multiplying, &input(100)).unwrap_err().contains("too much work"));
    assert!(check(&multiplying, &input(8)).unwrap_err().contains("'anyOf'"), "it is checked, and does not fit");
}

#[test]
fn chains_of_references_are_refused_or_followed_whatever_they_are_made_of() {
    let chain = |links: usize, link: &dyn Fn(Value) -> Value, last: Value| {
        let next = |n: usize| json!({ "$ref": format!("#/$defs/n{}", n + 1) });
        let mut definitions: serde_json::Map<_, _> = (0..links).map(|n| (format!("n{n}"), link(next(n)))).collect();
        definitions.insert(format!("n{links}"), last);
        json!({ "$ref": "#/$defs/n0", "$defs": definitions }).to_string()
    };
    let evaluated = |next: Value| json!({ "$ref": next["$ref"], "unevaluatedProperties": false });
    let error = compile(&chain(721, &evaluated, json!({}))).unwrap_err().to_string();
    assert!(error.contains("chained more than"), "{error}");
    assert_eq!(check(&chain(721, &|next| next, json!({ "required": ["a"] })), r#"{"a":1}"#), Ok(()));
    let around = json!({ "properties": { "a": { "$ref": "#" } } });
    let deep = format!("{}1{}", r#"{"a":"#.repeat(127), "}".repeat(127));
    for link in [
        &(|next| json!({ "allOf": [next] })) as &dyn Fn(Value) -> Value,
        &|next| json!({ "not": { "not": next } }),
        &|next| json!({ "if": next, "else": false }),
        &|next| json!({ "anyOf": [next], "unevaluatedItems": false }),
    ] {
        let error = check(&chain(200, link, around.clone()), &deep).unwrap_err();
        assert!(error.contains("nested too deep") || error.contains("too much work"), "{error}");
    }
}

#[test]
fn work_is_counted_wherever_it_hides() {
    let doubled: Value = serde_json::from_str(&doubling(60, "allOf")).unwrap();
    let encoded = doubled.to_string().replace("#/$defs", "#/%24defs");
    let names = json!({ "propertyNames": doubled }).to_string().replace("#/$defs", "#/propertyNames/$defs");
    let inner = json!({ "$id": "urn:e", "allOf": [{ "$ref": "#/$defs/n0" }], "$defs": doubled["$defs"] });
    let embedded = json!({ "$ref": "urn:e", "$defs": { "e": inner } }).to_string();
    let many: Vec<_> = (0..60_000).map(|n| json!(n)).collect();
    let text = "ab".repeat(100_000);
    for (schema, input) in [
        (encoded, json!({ "a": 1 })),
        (names, json!({ "x": 1 })),
        (embedded, json!({ "a": 1 })),
        (r#"{"properties":{"t":{"pattern":"[ab]*a[ab]{900}c"}}}"#.to_owned(), json!({ "t": text })),
        (r#"{"properties":{"t":{"pattern":"^(?=(a|b)*c)\\1"}}}"#.to_owned(), json!({ "t": text })),
        (
            json!({ "properties": { "t": { "items": { "enum": (0..9_000).collect::<Vec<_>>() } } } }).to_string(),
            json!({ "t": many }),
        ),
    ] {
        let error = check(&schema, &input.to_string());
        let error = error.err().unwrap_or_else(|| panic!("{schema:.100} takes it"));
        assert!(error.contains("too much work"), "{schema:.100}: {error:.200}");
    }
    let unique = r#"{"properties":{"t":{"uniqueItems":true}}}"#;
    assert_eq!(check(unique, &json!({ "t": many }).to_string()), Ok(()));
    let values = format!(r#"{{"t":[{}1]}}"#, "[],".repeat(1 << 20));
    assert!(check(unique, &values).unwrap_err().contains("more than 65536 values"));
}

#[tokio::test]
async fn a_check_that_takes_long_is_done_elsewhere_with_the_same_verdict() {
    let (schemas, limits) = (Schemas::new(Aside::default()), Limits::default());
    let schema = schemas.compile(Some(&raw(&doubling(12, "allOf"))), &limits).await.unwrap();
    let long = format!(r#"{{"a":"{}"}}"#, "x".repeat(100_000));
    for (input, fits) in [(r#"{"a":1}"#, true), (long.as_str(), true), (r#"{"b":1}"#, false)] {
        let checked = schemas.check(&schema, &raw(input), &limits).await;
        assert_eq!((checked.is_ok(), &checked), (fits, &schema.check(&raw(input), &limits)));
    }
    let explodes = schemas.compile(Some(&raw(&doubling(40, "allOf"))), &limits).await.unwrap();
    let error = schemas.check(&explodes, &raw(r#"{"a":1}"#), &limits).await.unwrap_err().to_string();
    assert!(error.contains("too much work"), "{error}");
}

#[test]
fn depth_counts_brackets_outside_of_strings() {
    for (text, expected) in [("1", 0), ("[]", 1), (r#"{"a":[{}]}"#, 3), (r#""[[[[""#, 0), (r#"["\"[[",[]]"#, 2)] {
        assert_eq!(depth(text), expected, "{text}");
    }
}

#[test]
fn an_input_that_is_too_deep_is_refused() {
    let limits = Limits { input_depth: 10, ..Limits::default() };
    let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(10), "]".repeat(10));
    assert!(Schema::any_object().check(&raw(&deep), &limits).is_err());
    let fine = format!(r#"{{"a":{}{}}}"#, "[".repeat(9), "]".repeat(9));
    assert!(Schema::any_object().check(&raw(&fine), &limits).is_ok());
}

#[tokio::test]
async fn one_schema_is_compiled_once_and_forgotten_with_its_last_tool() {
    let (schemas, limits) = (Schemas::new(Aside::default()), Limits::default());
    let source = raw(r#"{"required":["a"]}"#);
    let one = schemas.compile(Some(&source), &limits).await.unwrap();
    let other = schemas.compile(Some(&source), &limits).await.unwrap();
    assert!(Arc::ptr_eq(&one, &other));
    drop((one, other));
    for n in 0..1_000 {
        schemas.compile(Some(&raw(&format!(r#"{{"required":["{n}"]}}"#))), &limits).await.unwrap();
    }
    assert!(schemas.lock().len() < 100, "{}", schemas.lock().len());
}

#[test]
fn patterns_cost_no_more_than_they_may() {
    let compile = |schema: serde_json::Value| {
        let schema = serde_json::value::to_raw_value(&schema).unwrap();
        Schema::compile(&schema, &Limits::default()).map(|_| ()).map_err(|error| error.to_string())
    };
    let property = |pattern: &str| serde_json::json!({ "type": "string", "pattern": pattern });
    assert_eq!(compile(serde_json::json!({ "properties": { "a": property(r"^\p{L}+-[0-9]{1,9}$") } })), Ok(()));
    let huge = compile(serde_json::json!({ "properties": { "a": property(r"(?:\p{L}x){3000}") } }));
    assert!(huge.unwrap_err().contains("too large"));
    let many = |count: usize| {
        let named = |place: usize| (format!("^p{place}$"), serde_json::json!({}));
        let properties: serde_json::Map<_, _> = (0..count - 1).map(named).collect();
        compile(serde_json::json!({ "patternProperties": properties, "properties": { "a": property("^a$") } }))
    };
    assert_eq!(many(64), Ok(()));
    assert_eq!(many(65), Err("it has 65 patterns; at most 64 are allowed".to_owned()));
}
