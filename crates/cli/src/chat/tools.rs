//! Local commands that a chat offers as tools, as long as it lasts.

use std::ffi::OsString;

use handback_client::Tool;

use crate::attach::command_tool;

/// A command to offer, as it is given: `NAME=COMMAND`.
#[derive(Debug, Clone)]
pub(super) struct LocalTool {
    pub(super) name: String,
    command: String,
}

impl LocalTool {
    /// Reads `NAME=COMMAND`.
    pub(super) fn parse(argument: &str) -> Result<Self, String> {
        match argument.split_once('=').map(|(name, command)| (name.trim(), command.trim())) {
            Some((name, command)) if !name.is_empty() && !command.is_empty() => {
                Ok(Self { name: name.to_owned(), command: command.to_owned() })
            }
            _ => Err("it must be NAME=COMMAND, such as 'today=date'".to_owned()),
        }
    }

    /// The tool.
    pub(super) fn tool(&self) -> Tool {
        let shell = if cfg!(windows) { ["cmd", "/C"] } else { ["sh", "-c"] };
        let words = shell.into_iter().chain([self.command.as_str()]).map(OsString::from);
        let description =
            format!("Runs `{}` on the user's computer; its standard input is the input as JSON", self.command);
        command_tool(self.name.clone(), description, words.collect())
    }
}

#[cfg(test)]
mod tests {
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
}
