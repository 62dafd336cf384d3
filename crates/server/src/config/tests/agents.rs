//! Agents, and what they may do.

use handback_core::sessions;
use handback_core::sessions::Agents;

use super::*;

const TOML: &str = "
[agents.default]
system = \"Be brief.\\nBe kind.\"
[agents.default.permission]
client_tools = \"ask\"
[agents.default.permission.tools]
\"client_*_read_*\" = \"allow\"
\"client_a.b_*\" = \"deny\"
\"*\" = \"ask\"
[agents.clerk]
model = \"demo/scripted\"
";
const JSON: &str = r#"{"agents": {
    "default": {"system": "Be brief.\nBe kind.", "permission": {"client_tools": "ask",
        "tools": {"client_*_read_*": "allow", "client_a.b_*": "deny", "*": "ask"}}},
    "clerk": {"model": "demo/scripted"}}}"#;

#[test]
fn agents_as_the_engine_has_them() {
    let pattern = |text: &str, permission| (ToolPattern::parse(text).unwrap(), permission);
    let default = sessions::Agent {
        system: Some("Be brief.\nBe kind.".to_owned()),
        model: None,
        policy: Policy {
            client_tools: Permission::Ask,
            tools: vec![
                pattern("*", Permission::Ask),
                pattern("client_*_read_*", Permission::Allow),
                pattern("client_a.b_*", Permission::Deny),
            ],
        },
        is_open: true,
    };
    let clerk =
        sessions::Agent { model: Some(ModelRef::parse("demo/scripted").unwrap()), ..sessions::Agent::default() };
    let expected = Agents::from_iter([("default".into(), default), ("clerk".into(), clerk)]);
    for place in [Place::new().toml(TOML), Place::new().json(JSON)] {
        assert_eq!(Agents::from(&place.load().config), expected);
    }
    assert_eq!(Agents::from(&Config::default()), Agents::default());
}

#[test]
fn agents_are_shown_with_their_patterns_as_they_are_written() {
    let rows = Place::new().toml(TOML).given();
    let file = "file work/handback.toml";
    let expected = [
        ["agents.clerk.model", "demo/scripted", file],
        ["agents.default.permission.client_tools", "ask", file],
        ["agents.default.permission.tools.\"*\"", "ask", file],
        ["agents.default.permission.tools.\"client_*_read_*\"", "allow", file],
        ["agents.default.permission.tools.\"client_a.b_*\"", "deny", file],
        ["agents.default.system", "Be brief. Be kind.", file],
    ];
    assert_eq!(rows, expected);
}

#[test]
fn an_agent_of_which_nothing_is_said_may_do_everything() {
    let place = Place::new().toml("[agents.clerk]");
    assert_eq!(place.load().config.agents, [("clerk".to_owned(), Agent::default())].into());
    let expected = Agents::from_iter([("clerk".into(), sessions::Agent::default())]);
    assert_eq!(Agents::from(&place.load().config), expected);
}

#[test]
fn only_the_default_agent_is_open_unless_something_is_said() {
    let open =
        |toml: &str, name: &str| Agents::from(&Place::new().toml(toml).load().config).find(name).unwrap().is_open;
    assert!(open("", "default") && open("[agents.default]", "default") && !open("[agents.clerk]", "clerk"));
    assert!(open("[agents.clerk]\nopen = true", "clerk") && !open("[agents.default]\nopen = false", "default"));
}

#[test]
fn agents_that_are_refused() {
    let cases = [
        (
            "[agents.a]\nsytem = \"x\"",
            "unknown key agents.a.sytem (did you mean system?); allowed here: system, model, permission, open",
        ),
        (
            "[agents.a.permission]\nclientTools = \"ask\"",
            "unknown key agents.a.permission.clientTools (did you mean client_tools?); allowed here: client_tools, \
             tools",
        ),
        (
            "[agents.a.permission]\nclient_tools = \"maybe\"",
            "agents.a.permission.client_tools: unknown variant `maybe`, expected one of `allow`, `ask`, `deny`",
        ),
        (
            "[agents.a.permission.tools]\n\"client_*_x.y\" = true",
            "agents.a.permission.tools.\"client_*_x.y\": invalid type: boolean `true`, expected string or map",
        ),
        (
            "[agents.a.permission.tools]\n\"read file\" = \"deny\"",
            "agents.a.permission.tools.\"read file\": pattern \"read file\" is not allowed: 1 to 256 of A-Z a-z 0-9 \
             _ . : @ - *",
        ),
        ("[agents.a]\npermission = \"ask\"", "agents.a.permission: found a single value, expected a table of keys"),
        ("[agents.a.permission]\ntools = [\"a\"]", "agents.a.permission.tools: found a list, expected a table of keys"),
        ("[agents]\na = \"x\"", "agents.a: found a single value, expected a table of keys"),
        ("[agents.a]\nsystem = 5", "agents.a.system: invalid type: integer `5`, expected a string"),
        (
            "[agents.a]\nmodel = \"gpt\"",
            "agents.a.model: found \"gpt\", expected providerID/modelID, such as demo/scripted",
        ),
        ("[agents.\"a b\"]", "agents.\"a b\": the name must be 1 to 64 letters, digits, _ . and -"),
    ];
    for (text, expected) in cases {
        assert_eq!(Place::new().toml(text).error(), format!("file work/handback.toml: {expected}"));
    }
}

#[test]
fn variables_do_not_reach_into_tables_of_names() {
    let loaded = Place::new()
        .toml("[agents.default]\nsystem = \"x\"\n[providers.a]\nkind = \"openai\"\napiKey = \"k\"")
        .variable("HANDBACK_AGENTS_DEFAULT_SYSTEM", "y")
        .variable("HANDBACK_PROVIDERS", "y")
        .variable("HANDBACK_PROVIDERS_A_API_KEY", "y")
        .load();
    assert_eq!(loaded.config.agents["default"].system.as_deref(), Some("x"));
    assert_eq!(loaded.config.providers["a"].api_key.as_ref().unwrap().expose(), "k");
    let expected = [
        "environment HANDBACK_AGENTS_DEFAULT_SYSTEM sets no key: agents are set in a file",
        "environment HANDBACK_PROVIDERS sets no key: providers are set in a file",
        "environment HANDBACK_PROVIDERS_A_API_KEY sets no key: providers are set in a file",
    ];
    assert_eq!(loaded.warnings, expected);
}
