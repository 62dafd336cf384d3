//! Any text, any tools: nothing panics, nothing takes long, and what is called can be called.

use handback_core::limits::Limits;
use handback_core::schema::Schema;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::{MOST_TEXT, pick, text};
use super::*;

/// Pieces of text that the model makes something of.
const PIECES: &[&str] = &[
    "add",
    "open",
    "the",
    "file",
    "weather",
    "light",
    "on",
    "off",
    "not",
    "in",
    "to",
    "from",
    "and",
    "Paris",
    "New",
    "York",
    "city",
    "name",
    "a",
    "b",
    "level",
    "set",
    "get_weather",
    "7",
    "-3.5",
    "1,000",
    "800x600",
    "10:30",
    "5%",
    "two",
    "https://example.com/?a=b",
    "www.example.com",
    "bob@example.com",
    "notes.txt",
    "/etc/hosts",
    "2026-01-31",
    "\"quoted text\"",
    "'it's'",
    "“curly”",
    "„deutsch“",
    "\"open",
    "`",
    "'",
    "(",
    ")",
    ":",
    "=",
    ",",
    ".",
    "?",
    "!",
    "\n",
    "\r\n",
    "\t",
    "🦀",
    "é",
    "İ",
    "ß",
    "call",
    "call x {",
    "- call add {}",
    "{",
    "}",
    "[",
    "tools",
    "list",
    "red",
    "green",
];

fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![6 => select(PIECES).prop_map(str::to_owned), 1 => ".{0,8}", 1 => "\\PC{0,8}"];
    vec((piece, select(vec![" ", " ", "", "\n"])), 0..24)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(piece, space)| [piece, space.to_owned()]).collect())
}

/// A parameter that a check of its values makes sense for.
fn plain_parameter() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": ["null", "string"]})),
        Just(json!({"type": "number", "minimum": -5, "maximum": 1_000})),
        Just(json!({"type": "integer", "minimum": 0})),
        Just(json!({"type": "boolean"})),
        Just(json!({"type": "null"})),
        Just(json!({"type": "object"})),
        Just(json!({"enum": ["on", "off", "dark mode", 7, true, null]})),
        Just(json!({"const": "fixed"})),
        Just(json!({"type": "integer", "default": 3})),
        Just(json!({"type": "array", "items": {"type": "number"}, "minItems": 2})),
        Just(json!({"type": "array", "items": {"type": "string"}})),
        Just(json!({"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 1})),
        Just(json!({"$ref": "#/$defs/unit"})),
        Just(json!({"anyOf": [{"type": "null"}, {"$ref": "#/$defs/unit"}]})),
        Just(json!({"type": "string", "pattern": ".", "format": "uri"})),
        Just(json!({})),
        Just(json!(true)),
    ]
}

fn plain_schema() -> impl Strategy<Value = Value> {
    let name = select(vec!["a", "b", "city", "name", "path", "url", "to", "level", "on", "text", "timezone", "Zwölf"]);
    vec((name, plain_parameter(), any::<bool>()), 0..6).prop_map(|parameters| {
        let required: Vec<_> = parameters.iter().filter(|(.., required)| *required).map(|(name, ..)| *name).collect();
        let properties: serde_json::Map<String, Value> =
            parameters.iter().map(|(name, schema, _)| ((*name).to_owned(), schema.clone())).collect();
        // A parameter of a name that came twice is what it was said to be last; it may be required all the same.
        let required: std::collections::BTreeSet<_> = required.into_iter().collect();
        json!({
            "type": "object", "properties": properties, "required": required,
            "$defs": {"unit": {"type": "string", "enum": ["on", "off"]}},
        })
    })
}

/// JSON that may or may not be a schema.
fn any_schema() -> impl Strategy<Value = Value> {
    let keys = vec![
        "type",
        "properties",
        "required",
        "enum",
        "const",
        "default",
        "items",
        "$ref",
        "$defs",
        "definitions",
        "anyOf",
        "oneOf",
        "minimum",
        "minItems",
        "format",
        "description",
        "a",
        "b",
        "city",
    ];
    let leaf = prop_oneof![
        select(vec![
            "string",
            "number",
            "integer",
            "boolean",
            "array",
            "object",
            "null",
            "#/$defs/a",
            "#/$defs/b",
            "#",
            "uri",
            "date",
            "a"
        ])
        .prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null),
        Just(Value::Bool(true)),
    ];
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            3 => vec((select(keys.clone()), inner.clone()), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect::<Value>()),
            1 => vec(inner, 0..4).prop_map(Value::Array),
        ]
    })
}

fn any_tools(schema: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Offered>> {
    let name = select(vec![
        "add",
        "open-url",
        "get_weather",
        "light",
        "set_light",
        "readFile",
        "x",
        "my_tool",
        "list_tools",
        "a.b:c@d",
    ]);
    let description = prop_oneof![
        select(vec!["", "Opens a file or the weather", "Adds two numbers", "Turns the light on or off"])
            .prop_map(str::to_owned),
        "\\PC{0,40}",
    ];
    let tool = (name, description, schema)
        .prop_map(|(name, description, schema)| tool(name, &description, &schema.to_string()));
    (vec(tool, 0..6), any::<bool>()).prop_map(|(mut tools, discovery)| {
        tools.extend(discovery.then(list_tools));
        tools
    })
}

proptest! {
    #[test]
    fn any_text_and_any_tools_are_answered_and_always_alike(
        texts in vec(any_text(), 0..3),
        tools in any_tools(prop_oneof![any_schema(), plain_schema()]),
    ) {
        let turn = [user_with(texts.iter().map(|text| said(text)).collect())];
        let first = events(&turn, &tools);
        prop_assert_eq!(&first, &events(&turn, &tools));
        let answer = put_together(first);
        prop_assert!(answer.calls.is_empty() != answer.text.is_empty());
    }

    #[test]
    fn what_is_picked_fits_the_schema_of_its_tool(text in any_text(), tools in any_tools(plain_schema())) {
        // Something that most of the tools are about.
        let text = format!("add the light weather {text}");
        let offered = model_tools(&tools);
        if let Some((tool, Ok(arguments))) = pick::pick(&text, &offered) {
            let object: Value = serde_json::from_str(&arguments).unwrap();
            prop_assert!(object.is_object(), "{}", arguments);
            let schema = Schema::compile(tool.schema, &Limits::default()).unwrap();
            prop_assert_eq!(schema.check(&raw(&arguments), &Limits::default()), Ok(()), "{} {}", tool.schema, arguments);
        }
    }

    #[test]
    fn what_is_picked_for_any_schema_is_an_object(text in any_text(), tools in any_tools(any_schema())) {
        if let Some((_, Ok(arguments))) = pick::pick(&format!("add {text}"), &model_tools(&tools)) {
            prop_assert!(serde_json::from_str::<serde_json::Map<String, Value>>(&arguments).is_ok(), "{}", arguments);
        }
    }

    #[test]
    fn a_line_makes_exactly_its_call(before in any_text(), arguments in "[^\r\n]{1,80}", brace in any::<bool>()) {
        let arguments = if brace { format!("{{{}", arguments.trim()) } else { format!("x{}", arguments.trim()) };
        let arguments = arguments.trim_end();
        let calls = answer_to(&format!("{before}\ncall echo {arguments}"), &[tool("echo", "", "{}")]).calls;
        let (_, name, made) = calls.last().unwrap();
        prop_assert_eq!((name.as_str(), made.as_str()), ("client_laptop_echo", arguments));
    }

    #[test]
    fn pieces_of_a_text_are_where_they_say(text in any_text()) {
        let mut end = 0;
        for piece in text::pieces(&text) {
            prop_assert!(end <= piece.start && piece.start < piece.end);
            prop_assert!(text[piece.start..piece.end].contains(piece.text));
            end = piece.end;
        }
    }
}

/// Texts of about so many bytes that are made to keep a reader busy.
fn hostile_texts(size: usize) -> impl Iterator<Item = String> {
    let patterns = [
        "\"",
        "'",
        "'a",
        "“",
        "„",
        "`",
        "(",
        "1,",
        "1,000,",
        "1x",
        "-",
        "a.",
        "://",
        "@",
        "A ",
        "a",
        "add ",
        "tools ",
        "\n",
        "é'",
        "call x [\n",
        "call x {\"a\":[",
        "call x {\n",
        "- call `",
        "1",
        "call ",
        "[\n",
        "{",
        "{\"a\":",
        "call x [1,\n2,\n",
    ];
    let repeat = move |pattern: &str| pattern.repeat(size / pattern.len());
    patterns.into_iter().flat_map(move |pattern| [repeat(pattern), format!("add {}", repeat(pattern))])
}

#[test]
fn only_so_much_of_a_text_is_looked_at() {
    let add = [tool_with("add", "", &[("text!", r#"{"type":"string"}"#)])];
    for text in hostile_texts(128 * 1024) {
        // To its end, and with an answer that is no larger than what was asked.
        let answer = answer_to(&text, &add);
        let size = answer.text.len() + answer.calls.iter().map(|(.., arguments)| arguments.len()).sum::<usize>();
        assert!(size <= text.len() + 1_000, "{size}");
    }
    // So many bytes, and so many pieces.
    let seen = format!("{}add it all", " ".repeat(MOST_TEXT - 10));
    assert_eq!(answer_to(&seen, &add), Said::call("add", r#"{"text":"all"}"#));
    assert_eq!(answer_to(&format!(" {seen}"), &add), Said::call("add", r#"{"text":"al"}"#));
    assert_eq!(answer_to(&format!("{}add it all", "x ".repeat(509)), &add), Said::call("add", r#"{"text":"all"}"#));
    assert_eq!(answer_to(&format!("{}add it all", "x ".repeat(512)), &add), answer_to("hello", &add));
    let many = user_with([vec![said("add x")], vec![said("x"); 100_000]].concat());
    let (_, _, arguments) = answer(&[many], &add).calls.remove(0);
    assert!(arguments.len() <= MOST_TEXT * 2, "{}", arguments.len());
}

/// Schemas that are made to keep a reader busy, each of about 64 KiB.
fn hostile_schemas() -> Vec<String> {
    let size = 64 * 1024;
    let wide =
        |field: &str| (0..size / (field.len() + 8)).map(|n| format!(r#""p{n}":{field}"#)).collect::<Vec<_>>().join(",");
    let names = (0..size / 8).map(|n| format!(r#""p{n}""#)).collect::<Vec<_>>().join(",");
    let large = format!(r#"{{"description":"{}","type":"string"}}"#, "add ".repeat(size / 5));
    vec![
        format!(r#"{{"a":{}1{}}}"#, "[".repeat(size / 2), "]".repeat(size / 2)),
        format!("{}1{}", r#"{"properties":{"a":"#.repeat(3_000), "}}".repeat(3_000)),
        format!(r#"{{"properties":{{"a":{}1{}}}}}"#, r#"{"items":"#.repeat(7_000), "}".repeat(7_000)),
        format!(r#"{{"properties":{{{}}},"required":[{names}]}}"#, wide(r#"{"type":"string"}"#)),
        format!(r#"{{"required":[{names}]}}"#),
        format!(r#"{{"properties":{{"add":{{"enum":[{names}]}}}},"required":["add"]}}"#),
        format!(
            r##"{{"properties":{{{}}},"$defs":{{"x":{{"$ref":"#/$defs/x"}}}}}}"##,
            wide(r##"{"$ref":"#/$defs/x"}"##)
        ),
        format!(r##"{{"properties":{{{}}},"$defs":{{"x":{large}}}}}"##, wide(r##"{"$ref":"#/$defs/x"}"##)),
        format!(r##"{{"$ref":"#/$defs/x","$defs":{{"x":{{"anyOf":[{{"$ref":"#/$defs/x"}},{large}]}}}}}}"##),
        format!(r#"{{"anyOf":[{}]}}"#, vec![r#"{"type":"null"}"#; size / 16].join(",")),
    ]
}

#[test]
fn only_so_much_of_a_schema_is_looked_at() {
    for schema in hostile_schemas() {
        let answer = answer_to("add", &[tool("add", "", &schema)]);
        assert!(answer.text.len() <= 5_000, "{}", answer.text.len());
        assert_eq!(answer.text.is_empty(), !answer.calls.is_empty());
    }
    // Of many parameters behind a reference, 32 are asked for.
    let names: Vec<String> = (0..1_000).map(|n| format!(r#""p{n}""#)).collect();
    let input = format!(r#"{{"properties":{{{}:{{}}}},"required":[{}]}}"#, names.join(":{},"), names.join(","));
    let large = format!(r##"{{"$ref":"#/definitions/x","definitions":{{"x":{input}}}}}"##);
    assert_eq!(answer_to("add", &[tool("add", "", &large)]).text.matches("(a value)").count(), 32);
    // A reference to itself leads to a parameter that takes anything.
    let cyclic = r##"{"properties":{"a":{"$ref":"#/$defs/x"}},"required":["a"],
        "$defs":{"x":{"$ref":"#/$defs/y"},"y":{"$ref":"#/$defs/x"}}}"##;
    assert_eq!(answer_to("add 7", &[tool("add", "", cyclic)]), Said::call("add", r#"{"a":7}"#));
    assert_eq!(answer_to("add it all", &[tool("add", "", cyclic)]), Said::call("add", r#"{"a":"all"}"#));
}

#[test]
fn hostile_texts_with_hostile_tools_come_to_an_end() {
    let description = "add light weather ".repeat(4_000);
    let tools: Vec<Offered> = (hostile_schemas().iter().cycle().take(128).enumerate())
        .map(|(number, schema)| tool(&format!("add_{number}"), &description, schema))
        .collect();
    for text in hostile_texts(MOST_TEXT).filter(|text| text.starts_with("add")) {
        let answer = answer_to(&text, &tools);
        assert_ne!(answer, Said::default());
    }
}
