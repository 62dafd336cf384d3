use serde::Deserialize;
use serde_json::json;

use super::super::conversation::ToolCallStatus;
use super::*;

fn echo(name: &str) -> ClientTool {
    ClientTool::new(name, format!("Does {name}"), |call, _context| async move {
        Ok(format!("{} of {}", call.arguments, call.name))
    })
}

fn call(name: &str, arguments: &str) -> ToolCall {
    let status = ToolCallStatus::Executing;
    ToolCall { id: "c1".to_owned(), name: name.to_owned(), arguments: arguments.to_owned(), status, result: None }
}

fn context() -> ToolContext {
    ToolContext {
        cancellation: CancellationToken::new(),
        call_id: "c1".to_owned(),
        thread_id: Some("t".to_owned()),
        run_id: Some("r".to_owned()),
        deadline: Instant::now() + Duration::from_secs(60),
    }
}

fn names(registry: &ToolRegistry) -> Vec<String> {
    registry.definitions().into_iter().map(|tool| tool.name).collect()
}

async fn run(tool: ClientTool, arguments: &str) -> Result<String, ToolError> {
    let name = tool.definition().name.clone();
    ToolRegistry::new().register(tool).execute(call(&name, arguments), context()).await
}

#[test]
fn r01_a_registered_tool_is_there() {
    let registry = ToolRegistry::new().register(echo("a"));
    assert_eq!((registry.contains("a"), registry.contains("b"), registry.len()), (true, false, 1));
    assert_eq!((ToolRegistry::new().is_empty(), registry.is_empty()), (true, false));
}

#[test]
fn r02_registering_leaves_the_registry_as_it_was() {
    let one = ToolRegistry::new().register(echo("a"));
    let two = one.register(echo("b"));
    assert_eq!((names(&one), names(&two)), (vec!["a".to_owned()], vec!["a".to_owned(), "b".to_owned()]));
}

#[tokio::test]
async fn a_tool_of_the_same_name_is_replaced_in_its_place() {
    let other = ClientTool::new("a", "Another one", |_call, _context| async { Ok("another".to_owned()) });
    let registry = ToolRegistry::new().register(echo("a")).register(echo("b")).register(other);
    assert_eq!(names(&registry), ["a", "b"]);
    assert_eq!(registry.execute(call("a", ""), context()).await, Ok("another".to_owned()));
}

#[test]
fn r03_a_tool_is_found_by_its_name() {
    let registry = ToolRegistry::new().register(echo("a")).register(echo("b"));
    assert_eq!(registry.lookup("b").unwrap().definition().description, "Does b");
}

#[tokio::test]
async fn r04_an_unknown_tool_is_an_error() {
    let registry = ToolRegistry::new().register(echo("a"));
    let unknown = UnknownTool { name: "b".to_owned() };
    assert_eq!(registry.lookup("b").unwrap_err(), unknown);
    assert_eq!(registry.execute(call("b", ""), context()).await, Err(ToolError::new("there is no tool \"b\" here")));
}

#[tokio::test]
async fn r05_executing_gives_what_the_tool_returns() {
    assert_eq!(run(echo("a"), "{}").await, Ok("{} of a".to_owned()));
}

#[tokio::test]
async fn r06_a_failure_of_a_tool_is_an_error_and_so_is_a_panic() {
    let failing = ClientTool::new("f", "", |_call, _context| async { Err(ToolError::new("no luck")) });
    assert_eq!(run(failing, "").await, Err(ToolError::new("no luck")));
    let panicking = ClientTool::new("p", "", |call, _context| async move {
        assert!(call.arguments.is_empty(), "arguments");
        Ok(String::new())
    });
    assert_eq!(run(panicking, "{}").await, Err(ToolError::new("the tool panicked")));
    // Before there even is a future.
    let early = ClientTool::new("e", "", |call: ToolCall, _context| {
        assert!(call.arguments.is_empty(), "arguments");
        async { Ok(String::new()) }
    });
    assert_eq!(run(early, "{}").await, Err(ToolError::new("the tool panicked")));
}

#[test]
fn r07_the_definitions_are_those_of_all_tools_each_with_parameters() {
    let schema = RawValue::from_string(r#"{"type":"object","required":["x"]}"#.to_owned()).unwrap();
    let registry = ToolRegistry::new().register(echo("b")).register(echo("a").parameters(schema));
    assert_eq!(
        serde_json::to_value(registry.definitions()).unwrap(),
        json!([
            {"name": "b", "description": "Does b", "parameters": {"type": "object", "properties": {}}},
            {"name": "a", "description": "Does a", "parameters": {"type": "object", "required": ["x"]}},
        ])
    );
}

#[test]
fn r08_a_tool_can_be_unregistered() {
    let registry = ToolRegistry::new().register(echo("a")).register(echo("b")).unregister("a");
    assert_eq!((names(&registry), registry.contains("a")), (vec!["b".to_owned()], false));
}

#[tokio::test]
async fn r09_an_alias_finds_the_tool_and_goes_without_it() {
    let registry = ToolRegistry::new().register(echo("a")).alias("alpha", "a").unwrap();
    assert_eq!(registry.execute(call("alpha", "{}"), context()).await, Ok("{} of alpha".to_owned()));
    assert_eq!(names(&registry), ["a"]);
    // The alias of an alias is one of the tool.
    let both = registry.alias("first", "alpha").unwrap();
    let without = both.unregister("alpha");
    assert_eq!(["a", "alpha", "first"].map(|name| without.contains(name)), [true, false, true]);
}

#[test]
fn r10_a_tool_goes_with_its_aliases() {
    let registry = ToolRegistry::new().register(echo("a")).register(echo("b"));
    let registry = registry.alias("alpha", "a").unwrap().alias("beta", "b").unwrap().unregister("a");
    assert_eq!(["a", "alpha", "b", "beta"].map(|name| registry.contains(name)), [false, false, true, true]);
}

#[test]
fn r11_unregistering_leaves_the_registry_as_it_was() {
    let registry = ToolRegistry::new().register(echo("a")).alias("alpha", "a").unwrap();
    let (without_tool, without_alias) = (registry.unregister("a"), registry.unregister("alpha"));
    assert_eq!((without_tool.len(), without_alias.len()), (0, 1));
    assert_eq!((registry.contains("a"), registry.contains("alpha")), (true, true));
}

#[test]
fn r12_unregistering_what_is_not_there_changes_nothing() {
    let registry = ToolRegistry::new().register(echo("a")).alias("alpha", "a").unwrap().unregister("b");
    assert_eq!((names(&registry), registry.contains("alpha")), (vec!["a".to_owned()], true));
}

#[test]
fn names_of_tools_go_before_aliases() {
    let registry = ToolRegistry::new().register(echo("a")).register(echo("b"));
    assert_eq!(registry.alias("x", "c").unwrap_err(), UnknownTool { name: "c".to_owned() });
    let registry = registry.alias("b", "a").unwrap().alias("x", "a").unwrap().register(echo("x"));
    let found = |name: &str| registry.lookup(name).unwrap().definition().name.clone();
    assert_eq!((found("b"), found("x")), ("b".to_owned(), "x".to_owned()));
}

#[tokio::test]
async fn r13_the_context_reaches_the_tool() {
    let tool = ClientTool::new("a", "", |_call, context| async move {
        let ToolContext { cancellation, call_id, thread_id, run_id, deadline } = context;
        let left = deadline.saturating_duration_since(Instant::now());
        Ok(format!("{call_id} {thread_id:?} {run_id:?} {} {}", left.as_secs() >= 59, cancellation.is_cancelled()))
    });
    assert_eq!(run(tool, "").await, Ok(r#"c1 Some("t") Some("r") true false"#.to_owned()));
}

#[derive(Deserialize, JsonSchema)]
struct Sum {
    left: i64,
    right: Option<i64>,
}

#[tokio::test]
async fn a_typed_tool_reads_its_arguments_and_says_what_they_look_like() {
    let sum = || {
        ClientTool::typed("sum", "Adds", |sum: Sum, _context| async move {
            Ok((sum.left + sum.right.unwrap_or_default()).to_string())
        })
    };
    assert_eq!(
        serde_json::to_value(sum().definition()).unwrap(),
        json!({"name": "sum", "description": "Adds", "parameters": {"type": "object", "required": ["left"], "properties": {
            "left": {"type": "integer", "format": "int64"}, "right": {"type": ["integer", "null"], "format": "int64"}}}})
    );
    assert_eq!(run(sum(), r#"{"left":40,"right":2}"#).await, Ok("42".to_owned()));
    let misfit = "the arguments do not fit: missing field `left` at line 1 column 2";
    assert_eq!(run(sum(), "").await, Err(ToolError::new(misfit)));
}
