//! `handback attach`.

mod command;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use handback_client::{ClientTools, Effect, Journal, Options, Status, Tool, ToolError, Transport};
use serde_json::value::RawValue;

use crate::connection::{ServerArgs, api_word};
use crate::exit::UsageError;
use crate::output::remark;
use crate::signals::run_until_stopped;

/// Offers a local command as a tool, until it is stopped with Ctrl-C.
///
/// For each call the command is started anew: the input is JSON on its standard input, its standard output is the
/// tool's output, and an exit code other than 0 makes it an error with the end of its standard error. It finds
/// HANDBACK_REQUEST_ID, HANDBACK_SESSION_ID, HANDBACK_CALL_ID and HANDBACK_ATTEMPT in its environment, and is killed
/// when the call is cancelled or expires.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback attach --client laptop --tool uptime --effect read -- uptime\n  \
                        handback attach --client laptop --tool count --description 'Counts the words of a text' \\\n    \
                        --schema '{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}' \\\n    \
                        -- sh -c 'jq -r .text | wc -w'\n\n\
                        Start one `attach` for a client id: the server gives a client's calls to any of its connections.")]
pub(crate) struct AttachArgs {
    /// The client that offers the tool.
    #[arg(long, value_name = "ID")]
    client: String,
    /// The tool's name.
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// What the tool does, for the model.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The JSON Schema of the input, or `@` and the file that holds it; without it any object is taken.
    #[arg(long, value_name = "JSON|@FILE")]
    schema: Option<String>,
    /// What running the command does: nothing, the same when done twice, or something each time.
    #[arg(long, default_value = "write", value_parser = api_word::<Effect>(&["read", "idempotent", "write"]))]
    effect: Effect,
    /// How long a call may take; the server has a default.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    timeout: Option<u32>,
    /// Offer the tool in this session only.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Keep what is known of calls in this directory, so that none runs twice after a restart.
    #[arg(long, value_name = "DIRECTORY")]
    journal: Option<PathBuf>,
    /// Get the calls on a WebSocket, not on a stream of events.
    #[arg(long)]
    websocket: bool,
    #[command(flatten)]
    server: ServerArgs,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) async fn run(args: AttachArgs) -> anyhow::Result<()> {
    let api = args.server.api()?;
    let mut tool = command_tool(args.tool, args.description.unwrap_or_default(), args.command).effect(args.effect);
    tool.definition.parameters = args.schema.map(read_schema).transpose()?;
    tool.definition.timeout = args.timeout.map(f64::from);

    let journal = match args.journal {
        Some(path) => Journal::directory(&path)
            .with_context(|| format!("the journal of calls cannot be kept in {}", path.display()))?,
        None => Journal::memory(),
    };
    let transport = if args.websocket { Transport::WebSocket } else { Transport::Sse };
    let introduction = format!("connected to {} as {}", api.url(), args.client);
    let observer = Arc::new(move |status| remark(&describe(&introduction, status)));
    let tools = ClientTools::new(
        api,
        args.client,
        Options::with(|options| {
            options.journal = journal;
            options.transport = transport;
            options.observer = observer;
        }),
    );
    tools.register(tool).await?;
    run_until_stopped(|shutdown| async { Ok(tools.run(args.session.as_deref(), shutdown).await?) }).await
}

/// A tool that runs a command for each call.
pub(crate) fn command_tool(name: String, description: String, command: Vec<OsString>) -> Tool {
    let command: Arc<[OsString]> = command.into();
    Tool::new(name, description, move |invocation| {
        let command = Arc::clone(&command);
        async move { command::run(&command, invocation).await.map_err(ToolError::new) }
    })
}

fn read_schema(argument: String) -> anyhow::Result<Box<RawValue>> {
    let text = match argument.strip_prefix('@') {
        Some(file) => fs::read_to_string(file).with_context(|| format!("cannot read the schema from {file}"))?,
        None => argument,
    };
    serde_json::from_str(text.trim()).map_err(|error| UsageError(format!("the schema is not JSON: {error}")).into())
}

fn describe(introduction: &str, status: Status) -> String {
    match status {
        Status::Connected { tools } => format!("{introduction}, offering {}", tools.join(", ")),
        Status::Disconnected { reason, retry_in } => {
            format!("{reason}; reconnecting in {:.1} s", retry_in.as_secs_f64())
        }
        Status::Started { request_id, attempt: 1, .. } => format!("call {request_id}: started"),
        Status::Started { request_id, attempt, .. } => format!("call {request_id}: started, attempt {attempt}"),
        Status::Finished { request_id, elapsed, error: None } => {
            format!("call {request_id}: done in {} ms", elapsed.as_millis())
        }
        Status::Finished { request_id, elapsed, error: Some(error) } => {
            format!("call {request_id}: failed in {} ms: {error}", elapsed.as_millis())
        }
        Status::Cancelled { request_id, reason } => format!("call {request_id}: cancelled: {reason}"),
        Status::Undelivered { request_id, reason } => {
            format!("call {request_id}: the server did not take the result: {reason}")
        }
        other => format!("{other:?}"),
    }
}
