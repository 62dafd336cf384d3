//! `handback call`.

use std::io;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use handback_client::{Api, Error, ExecuteOptions, Success, ToolResult};
use handback_wire::client_tools::{Attachment, ExecuteRequest};
use handback_wire::error::ErrorCode;
use serde_json::value::RawValue;

use crate::connection::QueryArgs;
use crate::exit::{Interrupted, UsageError};
use crate::output::{print, print_json, remark};
use crate::signals::run_until_stopped;

/// Calls a tool on its client and prints its output.
///
/// A tool that fails, a timeout or a client that is gone is a message on standard error and exit code 1. A server that is
/// lost meanwhile, or restarted, is waited for until the call's deadline. Ctrl-C cancels the call.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback call client_laptop_screenshot\n  \
                        handback call read_file '{\"path\":\"notes.txt\"}' --timeout 5000\n  \
                        jq -n '{path: \"notes.txt\"}' | handback call read_file -")]
pub(crate) struct CallArgs {
    /// The tool: its full id (`client_…`), or its name where only one client has a tool of that name.
    tool: String,
    /// The input, a JSON object; `-` reads it from standard input.
    #[arg(value_name = "JSON", default_value = "{}")]
    input: String,
    /// How long the call may take; the server has a default.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    /// The session that the call belongs to.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// A name for the call; a random one without it. The same call again finds the outcome of the first.
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Print the call's id at once instead of its output later; see `handback calls`.
    #[arg(long)]
    no_wait: bool,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn run(args: CallArgs) -> anyhow::Result<()> {
    let input = read_input(args.input)?;
    let client = args.query.server.client()?;
    let tool = full_id(client.api(), &args.query, args.tool).await?;
    if args.no_wait {
        let request = ExecuteRequest {
            tool_id: tool,
            request_id: args.request_id,
            session_id: args.session,
            input: Some(input),
            timeout: args.timeout.map(f64::from),
            ..ExecuteRequest::default()
        };
        let accepted = client.api().submit(&request).await;
        let shown = args.query.show(accepted, |accepted| print(&format!("{}\n", accepted.request_id)));
        return shown.map_err(point_to_tools);
    }
    let mut options = ExecuteOptions::with(|options| {
        options.request_id = args.request_id;
        options.session_id = args.session;
        options.timeout = args.timeout.map(|timeout| Duration::from_millis(timeout.into()));
    });
    let query = &args.query;
    let result = run_until_stopped(|stopped| async move {
        options.cancellation = stopped.clone();
        match client.execute(&tool, input, options).await {
            Err(error) if stopped.is_cancelled() && error.code() == Some(ErrorCode::Cancelled) => {
                Err(Interrupted("the call was cancelled").into())
            }
            ended => query.checked(ended).map_err(point_to_tools),
        }
    })
    .await?;
    if args.query.json {
        print_json(&result)?;
    }
    match result {
        ToolResult::Error { error } => bail!("the tool failed: {error}"),
        ToolResult::Success(_) if args.query.json => Ok(()),
        ToolResult::Success(success) => print_success(success),
    }
}

/// Reads a JSON object and keeps it as it is written.
fn read_input(argument: String) -> anyhow::Result<Box<RawValue>> {
    let text = if argument == "-" {
        io::read_to_string(io::stdin()).context("cannot read the input from standard input")?
    } else {
        argument
    };
    let input = text.trim();
    if !input.starts_with('{') {
        return Err(UsageError("the input must be a JSON object, such as '{\"path\":\"notes.txt\"}'".to_owned()).into());
    }
    serde_json::from_str(input).map_err(|error| UsageError(format!("the input is not JSON: {error}")).into())
}

/// The full id of a tool that is given by its id or by its name. The server is always asked, so that nothing else begins
/// if it cannot be reached.
async fn full_id(api: &Api, query: &QueryArgs, tool: String) -> anyhow::Result<String> {
    let tools = query.checked(api.all_tools().await)?;
    if tool.starts_with("client_") {
        return Ok(tool);
    }
    let ending = format!("_{tool}");
    let mut candidates: Vec<String> = tools.into_keys().filter(|id| id.ends_with(&ending)).collect();
    match candidates.len() {
        0 => bail!("no client has a tool named {tool}; `handback tools` lists what there is"),
        1 => Ok(candidates.remove(0)),
        _ => {
            Err(UsageError(format!("{tool} may be any of these; give the full id:\n  {}", candidates.join("\n  ")))
                .into())
        }
    }
}

/// Adds a hint how to list tools to the error that a tool is not found.
fn point_to_tools(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<Error>().and_then(Error::code) {
        Some(ErrorCode::NotFound) => anyhow!("{error}; `handback tools` lists what there is"),
        _ => error,
    }
}

/// Prints the output, and names the attachments on standard error.
fn print_success(success: Success) -> anyhow::Result<()> {
    let Success { mut output, attachments, .. } = success;
    if !output.is_empty() && !output.ends_with('\n') {
        output.push('\n');
    }
    print(&output)?;
    for Attachment { mime, filename, url } in attachments.unwrap_or_default() {
        // A data URL holds the whole file, which is not for a terminal; `--json` prints it.
        let place = if url.starts_with("data:") { format!("{} characters of data", url.len()) } else { url };
        remark(&format!("attachment: {} ({mime}): {place}", filename.as_deref().unwrap_or("unnamed")));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
