use handback_core::clock::Clock;
use handback_core::limits::Limits;
use handback_core::store::MemoryStore;
use tokio_util::task::TaskTracker;

use super::*;

fn with(name: &str, tool: FrontendTool) -> Result<Vec<Arc<ToolSpec>>, InvalidTool> {
    let hub = Hub::new(Limits::default(), Clock::counting(), Arc::new(MemoryStore::default()), TaskTracker::new());
    let config = Config { tools: [(name.to_owned(), tool)].into(), ..Config::default() };
    let server: Arc<dyn ServerTool> = Arc::new(handback_core::tools::ListTools::default());
    all(&hub, &config, Vec::new(), &[server])
}

fn names(tools: &[Arc<ToolSpec>]) -> Vec<(&str, f64)> {
    tools.iter().map(|tool| (tool.name.as_str(), tool.timeout.unwrap_or_default().as_secs_f64())).collect()
}

#[tokio::test]
async fn a_configured_tool_stands_beside_the_built_in_one_or_in_its_place() {
    let tool = FrontendTool { timeout_sec: 0.5, ..FrontendTool::default() };
    assert_eq!(names(&with("ring", tool.clone()).unwrap()), [("open-url", 60.0), ("ring", 60.0)]);
    let tool = FrontendTool { timeout_sec: 5.0, description: "Mine".to_owned(), ..tool };
    let tools = with("open-url", tool).unwrap();
    assert_eq!((names(&tools), tools[0].description.as_str()), (vec![("open-url", 5.0)], "Mine"));
}

#[tokio::test]
async fn a_tool_that_cannot_be_used_is_named() {
    let error = with("a b", FrontendTool::default()).unwrap_err().to_string();
    assert_eq!(error, "tools.a b: tool id \"a b\" is not allowed: 1 to 64 of A-Z a-z 0-9 _ . : @ -");
    let tool = FrontendTool { parameters: Some(json!({ "type": "objekt" })), ..FrontendTool::default() };
    let error = with("a", tool).unwrap_err().to_string();
    assert!(error.starts_with("tools.a: parameters: "), "{error}");
    for taken in ["list_tools", "client_a_b"] {
        let error = with(taken, FrontendTool::default()).unwrap_err().to_string();
        assert!(error.contains("choose another"), "{error}");
    }
}

#[tokio::test]
async fn only_web_addresses_can_be_opened() {
    let tools = with("ring", FrontendTool::default()).unwrap();
    let takes = |url: &str| {
        let input = to_raw_value(&json!({ "url": url })).unwrap();
        tools[0].schema.check(&input, &Limits::default()).is_ok()
    };
    assert!(["https://example.com", "http://a", "HTTPS://A"].into_iter().all(takes));
    for url in ["javascript:alert(1)", " https://a", "data:text/html,x", "file:///etc/passwd", "//a", "a", ""] {
        assert!(!takes(url), "{url}");
    }
}
