//! The clients that have tools, and their tools, in the file.

use handback_core::id::{ClientId, ToolName};
use handback_core::store::{StoredClient, StoredTool};
use rusqlite::{Connection, Row, params};

use super::database::{self, Database, Fault, json, name};

const SAVE: &str = "
    INSERT INTO client (id, content) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET content = excluded.content";

/// A tool that is replaced keeps its place.
const SAVE_TOOL: &str = "
    INSERT INTO client_tool (client, name, content) VALUES (?1, ?2, ?3)
    ON CONFLICT (client, name) DO UPDATE SET content = excluded.content";

const DELETE_TOOL: &str = "DELETE FROM client_tool WHERE client = ?1 AND name = ?2";

const DELETE_WITHOUT_TOOLS: &str = "
    DELETE FROM client WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM client_tool WHERE client = ?1)";

const LIST: &str = "SELECT id, content FROM client ORDER BY id";

const TOOLS: &str = "SELECT name, client, content FROM client_tool ORDER BY client, number";

pub(super) fn save(
    database: &mut Database,
    client: &StoredClient,
    tools: &[(ToolName, Option<StoredTool>)],
) -> Result<(), Fault> {
    let id = client.id.as_str();
    database.connection.prepare_cached(SAVE)?.execute(params![id, serde_json::to_string(client)?])?;
    for (name, tool) in tools {
        match tool {
            Some(tool) => {
                let values = params![id, name.as_str(), serde_json::to_string(tool)?];
                database.connection.prepare_cached(SAVE_TOOL)?.execute(values)?;
            }
            None => _ = database.connection.prepare_cached(DELETE_TOOL)?.execute([id, name.as_str()])?,
        }
    }
    database.connection.prepare_cached(DELETE_WITHOUT_TOOLS)?.execute([id])?;
    Ok(())
}

pub(super) fn list(connection: &Connection) -> Result<Vec<(StoredClient, Vec<StoredTool>)>, Fault> {
    let read = |row: &Row<'_>| Ok((json(row, 1)?, Vec::new()));
    let mut clients: Vec<(StoredClient, Vec<StoredTool>)> =
        database::query(connection, LIST, [], "client", read, |rows| rows.collect())?;
    let read = |row: &Row<'_>| Ok((name(row, 1, ClientId::parse)?, json(row, 2)?));
    database::query(connection, TOOLS, [], "tool", read, |rows| {
        let mut place = 0;
        for row in rows {
            let (client, tool) = row?;
            while clients.get(place).is_some_and(|(known, _)| known.id < client) {
                place += 1;
            }
            if let Some((_, tools)) = clients.get_mut(place).filter(|(known, _)| known.id == client) {
                tools.push(tool);
            }
        }
        Ok(())
    })?;
    Ok(clients)
}

#[cfg(test)]
mod tests;
