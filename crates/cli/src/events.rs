//! `handback events`.

use clap::Args;
use clap::builder::PossibleValuesParser;
use handback_client::EventFilter;
use handback_server::core::clock::Clock;
use handback_wire::event::Event;
use handback_wire::session::{Part, Permission, Status};

use crate::connection::{QueryArgs, word};
use crate::exit::UsageError;
use crate::following::Following;
use crate::output::{excerpt, print, print_json};

/// The types of events, in the words of the API, without the one that begins each connection.
const TYPES: [&str; 20] = [
    "client-tool.request",
    "client-tool.registered",
    "client-tool.unregistered",
    "client-tool.executing",
    "client-tool.completed",
    "client-tool.failed",
    "client-tool.late",
    "session.created",
    "session.updated",
    "session.deleted",
    "session.status",
    "session.idle",
    "session.error",
    "message.updated",
    "message.part.updated",
    "message.part.removed",
    "message.part.delta",
    "permission.updated",
    "permission.asked",
    "permission.replied",
];

/// How much of an event is shown; `--json` prints all of it.
const SHOWN_CHARACTERS: usize = 200;

/// Prints what happens on the server as it happens, until it is stopped with Ctrl-C.
///
/// A lost connection is opened again; what happened meanwhile is not shown. With --json each line is an event of the API.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback events --follow\n  \
                        handback events --follow --client laptop --type client-tool.failed --json")]
pub(crate) struct EventsArgs {
    /// Show events as they happen. This must be given, because the server keeps no past events.
    #[arg(long)]
    follow: bool,
    /// Only what happens in this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only what happens to this client: its tools, its calls, its sessions.
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Only events of this type; may be given several times.
    #[arg(long = "type", value_name = "TYPE", value_parser = PossibleValuesParser::new(TYPES))]
    types: Vec<String>,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn run(args: EventsArgs) -> anyhow::Result<()> {
    if !args.follow {
        let reason = "the server keeps no past events; add --follow to see those that happen from now on. What there \
                      was is in `handback calls` and `handback sessions`";
        return Err(UsageError(reason.to_owned()).into());
    }
    let api = args.query.server.api()?;
    // A short question, so that a server that is not there is an error and is not waited for.
    args.query.checked(api.permissions().await)?;
    let filter = EventFilter::with(|filter| {
        filter.session_id = args.session;
        filter.client_id = args.client;
    });
    let clock = Clock::system();
    let mut following = Following::new(&api, filter)?;
    while let Some(event) = following.next().await? {
        let value = serde_json::to_value(&event)?;
        let kind = value["type"].as_str().unwrap_or_default();
        let is_wanted = args.types.is_empty() || args.types.iter().any(|wanted| wanted == kind);
        if matches!(event, Event::Connected {}) || !is_wanted {
            continue;
        }
        if args.query.json {
            print_json(&event)?;
        } else {
            let time = humantime::format_rfc3339_seconds(clock.now());
            print(&format!("{time}  {kind:<24}  {}\n", excerpt(&describe(&event), SHOWN_CHARACTERS)))?;
        }
    }
    Ok(())
}

/// An event in a few words: whose it is, and what it says.
fn describe(event: &Event) -> String {
    match event {
        Event::Connected {} => String::new(),
        Event::Request { request, .. } => format!("{} {} {}", request.tool, request.request_id, request.input),
        Event::Registered(changed) | Event::Unregistered(changed) => changed.tool_ids.join(" "),
        Event::Executing(call) | Event::Completed { call, .. } => format!("{} {}", call.tool, call.session_id),
        Event::Failed { call, error, .. } => format!("{} {} {error}", call.tool, call.session_id),
        Event::Late { request_id, call, error, .. } => format!("{} {request_id} {error}", call.tool),
        Event::SessionCreated(session) | Event::SessionUpdated(session) | Event::SessionDeleted(session) => {
            format!("{} {}", session.session_id, session.info.title)
        }
        Event::SessionStatus { session_id, status } => {
            format!("{session_id} {}", if *status == Status::Busy { "busy" } else { "idle" })
        }
        Event::SessionIdle { session_id } => session_id.clone(),
        Event::SessionError { session_id, error } => format!("{session_id} {}", error.reason()),
        Event::MessageUpdated { session_id, info } => format!("{session_id} {} {}", info.id, info.role),
        Event::PartUpdated { session_id, part, .. } => format!("{session_id} {}", describe_part(part)),
        Event::PartRemoved { session_id, part_id, .. } => format!("{session_id} {part_id}"),
        Event::PartDelta { session_id, delta, .. } => format!("{session_id} {delta}"),
        Event::PermissionUpdated(ask) | Event::PermissionAsked(ask) => {
            let Permission { id, tool, input, session_id, .. } = ask;
            format!("{session_id} {id} {tool} {input}")
        }
        Event::PermissionReplied { session_id, permission_id, response, .. } => {
            format!("{session_id} {permission_id} {}", word(response))
        }
    }
}

/// A part of a message: a call with its state, or a text.
fn describe_part(part: &Part) -> String {
    let Part { kind, tool, state, text, .. } = part;
    match (tool, state) {
        (Some(tool), Some(state)) => format!("{kind} {tool} {}", state.status),
        _ => format!("{kind} {}", text.as_deref().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests;
