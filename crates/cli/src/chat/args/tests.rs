use super::*;

#[test]
fn a_model_is_a_provider_and_a_name_that_may_have_slashes() {
    let model = parse_model("openrouter/meta/llama-4").unwrap();
    assert_eq!((model.provider_id.as_str(), model.model_id.as_deref()), ("openrouter", Some("meta/llama-4")));
    for bad in ["", "scripted", "/scripted", "demo/"] {
        assert!(parse_model(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_tool_is_a_name_and_a_command() {
    let tool = parse_tool("count = jq -r .text | wc -w").unwrap().definition;
    assert_eq!(tool.id, "count");
    let description =
        |command: &str| format!("Runs `{command}` on the user's computer; its standard input is the input as JSON");
    assert_eq!(tool.description, description("jq -r .text | wc -w"));
    assert_eq!(parse_tool("env=A=1 env").unwrap().definition.description, description("A=1 env"));
    for bad in ["", "date", "=date", "today=", " = "] {
        assert!(parse_tool(bad).is_err(), "{bad}");
    }
}
