//! Tools of frontends.

use serde_json::json;

use super::*;

const TOML: &str = "
[tools.show-chart]
executionMode = \"frontend\"
description = \"Shows a chart\"
timeoutSec = 1.5
[tools.show-chart.parameters]
type = \"object\"
required = [\"values\"]
properties.values = { type = \"array\", items = { type = \"number\" } }
[tools.ring]
executionMode = \"frontend\"
";
const JSON: &str = r#"{"tools": {
    "show-chart": {"executionMode": "frontend", "description": "Shows a chart", "timeoutSec": 1.5, "parameters":
        {"type": "object", "required": ["values"], "properties": {"values": {"type": "array", "items": {"type": "number"}}}}},
    "ring": {"executionMode": "frontend"}}}"#;

#[test]
fn tools_are_read_with_their_schemas() {
    let chart = FrontendTool {
        description: "Shows a chart".to_owned(),
        parameters: Some(json!({
            "type": "object",
            "required": ["values"],
            "properties": { "values": { "type": "array", "items": { "type": "number" } } },
        })),
        timeout_sec: 1.5,
        ..FrontendTool::default()
    };
    let expected = [("show-chart".to_owned(), chart), ("ring".to_owned(), FrontendTool::default())].into();
    for place in [Place::new().toml(TOML), Place::new().json(JSON)] {
        assert_eq!(place.load().config.tools, expected);
    }
}

#[test]
fn tools_that_are_refused() {
    let cases = [
        ("[tools.a]", "tools.a: missing field `executionMode`"),
        (
            "[tools.a]\nexecutionMode = \"server\"",
            "tools.a.executionMode: unknown variant `server`, expected `frontend`",
        ),
        (
            "[tools.a]\nexecutionMode = \"frontend\"\ntimeout = 3",
            "unknown key tools.a.timeout; allowed here: executionMode, description, \
             parameters, timeoutSec",
        ),
        (
            "[tools.a]\nexecutionMode = \"frontend\"\ntimeoutSec = \"3\"",
            "tools.a.timeoutSec: found \"3\", expected a number of seconds",
        ),
        ("[tools]\na = \"frontend\"", "tools.a: found a single value, expected a table of keys"),
    ];
    for (text, expected) in cases {
        assert_eq!(Place::new().toml(text).error(), format!("file work/handback.toml: {expected}"));
    }
}
