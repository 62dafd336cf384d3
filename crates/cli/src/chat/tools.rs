//! Local commands that a chat offers as tools.

use std::ffi::OsString;

use handback_client::Tool;

use crate::attach::command_tool;

/// A local command with the name that it is offered under.
#[derive(Debug, Clone)]
pub(super) struct LocalTool {
    pub(super) name: String,
    command: String,
}

impl LocalTool {
    /// Parses `NAME=COMMAND`.
    pub(super) fn parse(argument: &str) -> Result<Self, String> {
        match argument.split_once('=').map(|(name, command)| (name.trim(), command.trim())) {
            Some((name, command)) if !name.is_empty() && !command.is_empty() => {
                Ok(Self { name: name.to_owned(), command: command.to_owned() })
            }
            _ => Err("it must be NAME=COMMAND, such as 'today=date'".to_owned()),
        }
    }

    /// The tool that runs the command in a shell.
    pub(super) fn tool(&self) -> Tool {
        let shell = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
        let words = shell.into_iter().chain([self.command.as_str()]).map(OsString::from);
        let description =
            format!("Runs `{}` on the user's computer; its standard input is the input as JSON", self.command);
        command_tool(self.name.clone(), description, words.collect())
    }
}

#[cfg(test)]
mod tests;
