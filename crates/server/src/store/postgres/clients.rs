//! The clients that have tools, and their tools.

use handback_core::id::ToolName;
use handback_core::store::{StoredClient, StoredTool};

use super::fault::Fault;
use super::lane::Lane;
use super::rows::json;

const SAVE: &str = "SELECT handback.save_client($1, $2, $3, $4, $5)";

/// Each tool of a client is a row.
const LIST: &str = "
    SELECT client.id, client.content, client_tool.content
    FROM handback.client JOIN handback.client_tool ON client_tool.client = client.id
    ORDER BY client.id, client_tool.number";

pub(super) const ALL: &[&str] = &[SAVE, LIST];

pub(super) async fn save(
    lane: &Lane,
    client: StoredClient,
    tools: Vec<(ToolName, Option<StoredTool>)>,
) -> Result<(), Fault> {
    let content = serde_json::to_string(&client)?;
    let (mut names, mut contents, mut gone) = (Vec::new(), Vec::new(), Vec::new());
    for (name, tool) in &tools {
        match tool {
            Some(tool) => {
                names.push(name.as_str());
                contents.push(serde_json::to_string(tool)?);
            }
            None => gone.push(name.as_str()),
        }
    }
    lane.query(SAVE, &[&client.id.as_str(), &content, &names, &contents, &gone]).await.map(drop)
}

pub(super) async fn list(lane: &Lane) -> Result<Vec<(StoredClient, Vec<StoredTool>)>, Fault> {
    let mut clients: Vec<(StoredClient, Vec<StoredTool>)> = Vec::new();
    for row in lane.query(LIST, &[]).await? {
        let tool = json(&row, 2, "tool of client")?;
        match clients.last_mut().filter(|(client, _)| row.try_get(0).is_ok_and(|id: &str| id == client.id.as_str())) {
            Some((_, tools)) => tools.push(tool),
            None => clients.push((json(&row, 1, "client")?, vec![tool])),
        }
    }
    Ok(clients)
}
