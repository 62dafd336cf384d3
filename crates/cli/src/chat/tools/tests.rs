use super::*;

#[test]
fn a_tool_is_a_name_and_a_command() {
    let tool = LocalTool::parse("count = jq -r .text | wc -w").unwrap().tool().definition;
    assert_eq!(tool.id, "count");
    assert_eq!(
        tool.description,
        "Runs `jq -r .text | wc -w` on the user's computer; its standard input is the input as JSON"
    );
    assert_eq!(LocalTool::parse("env=A=1 env").unwrap().command, "A=1 env");
    for bad in ["", "date", "=date", "today=", " = "] {
        assert!(LocalTool::parse(bad).is_err(), "{bad}");
    }
}
