//! The tools that frontends run: the built-in `open-url`, the configured ones, and those of an embedding program.

use std::sync::Arc;

use handback_core::Hub;
use handback_core::calls::timeout_of;
use handback_core::id::ToolName;
use handback_core::schema::Schema;
use handback_core::store::{Effect, ToolSpec};
use handback_core::tools::ServerTool;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::config::{Config, FrontendTool};

/// A tool that cannot be used as configured.
#[derive(Debug, thiserror::Error)]
#[error("tools.{name}: {problem}")]
pub struct InvalidTool {
    name: String,
    problem: String,
}

/// All of them. Of two with the same name the later one counts.
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
    let schema = parameters.map_or_else(|| Ok(Schema::any_object()), |source| Schema::compile(&source, hub.limits()));
    Ok(ToolSpec {
        name: ToolName::parse(name).map_err(|error| invalid(error.to_string()))?,
        description: tool.description.clone(),
        schema: Arc::new(schema.map_err(|error| invalid(format!("parameters: {error}")))?),
        timeout: Some(timeout_of(tool.timeout_sec)),
        effect: Effect::Write,
        version: None,
    })
}

/// The built-in tool that opens a web address in the user's browser.
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
mod tests;
