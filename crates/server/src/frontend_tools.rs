//! The tools that frontends run: `open-url`, which is built in, those that are configured, and what an embedding program
//! adds.

use std::sync::Arc;

use handback_core::Hub;
use handback_core::calls::timeout_of;
use handback_core::id::ToolName;
use handback_core::schema::Schema;
use handback_core::store::{Effect, ToolSpec};
use handback_core::tools::ServerTool;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::config::{Config, FrontendTool};

/// A tool that cannot be used as configured.
#[derive(Debug, thiserror::Error)]
#[error("tools.{name}: {problem}")]
pub struct InvalidTool {
    name: String,
    problem: String,
}

/// All of them; of two with one name the later counts.
pub(crate) fn all(
    hub: &Hub,
    config: &Config,
    added: Vec<ToolSpec>,
    server: &[Arc<dyn ServerTool>],
) -> Result<Vec<Arc<ToolSpec>>, InvalidTool> {
    let mut tools = vec![Arc::new(open_url(hub)?)];
    let configured = config.tools.iter().map(|(name, tool)| spec(hub, name, tool));
    for tool in configured.chain(added.into_iter().map(Ok)) {
        let tool = tool?;
        let name = tool.name.as_str();
        if name.starts_with("client_") || server.iter().any(|other| other.spec().name() == name) {
            let problem = "the name is that of another tool, or could be a client's; choose another".to_owned();
            return Err(InvalidTool { name: name.to_owned(), problem });
        }
        tools.retain(|known| known.name != tool.name);
        tools.push(Arc::new(tool));
    }
    Ok(tools)
}

/// A tool from the settings.
fn spec(hub: &Hub, name: &str, tool: &FrontendTool) -> Result<ToolSpec, InvalidTool> {
    let invalid = |problem: String| InvalidTool { name: name.to_owned(), problem };
    let parameters =
        tool.parameters.as_ref().map(to_raw_value).transpose().map_err(|error| invalid(error.to_string()))?;
    Ok(ToolSpec {
        name: ToolName::parse(name).map_err(|error| invalid(error.to_string()))?,
        description: tool.description.clone(),
        schema: compile(hub, parameters.as_deref()).map_err(|problem| invalid(format!("parameters: {problem}")))?,
        timeout: Some(timeout_of(tool.timeout_sec)),
        effect: Effect::Write,
        version: None,
    })
}

fn compile(hub: &Hub, parameters: Option<&RawValue>) -> Result<Arc<Schema>, String> {
    let schema = parameters.map_or_else(|| Ok(Schema::any_object()), |source| Schema::compile(source, hub.limits()));
    schema.map(Arc::new).map_err(|error| error.to_string())
}

/// Opens an address where the user can see it.
fn open_url(hub: &Hub) -> Result<ToolSpec, InvalidTool> {
    let tool = FrontendTool {
        description: "Opens a web address in the user's browser, where they can see it. Use it when the user wants to \
                      open, visit or see a page. Only http and https addresses can be opened."
            .to_owned(),
        parameters: Some(json!({
            "type": "object",
            "properties": {
                "url": {
                    "type": "string",
                    "description": "The address, with http:// or https://",
                    "pattern": "^[hH][tT][tT][pP][sS]?://",
                },
                "title": { "type": "string", "description": "What to call the page, for the user" },
                "timeoutSec": { "type": "number", "description": "How many seconds to wait for the user's browser" },
            },
            "required": ["url"],
        })),
        ..FrontendTool::default()
    };
    spec(hub, "open-url", &tool)
}

#[cfg(test)]
mod tests {
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
}
