//! What the server says.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use handback_client::{Api, Error};
use handback_server::core::clock::Clock;
use handback_wire::status::{BoundUse, ProviderKey, ServerCounts, ServerStatus, StoreKind};
use tokio::time::{Instant, timeout_at};

use super::{Check, NEAR_PERCENT};

/// How much the clocks may differ: so much the server forgives when it checks tokens.
const CLOCKS_DIFFER: Duration = Duration::from_secs(5);

const OPEN_FILES: &str = "open files";
const RAISE_FILES: &str = "raise the limit, and start the server again: `ulimit -n`, or LimitNOFILE= of a systemd unit";

/// What asking the server came to.
pub(super) struct Answers {
    pub(super) checks: Vec<Check>,
    /// What the server says of itself, if it may tell.
    pub(super) status: Option<ServerStatus>,
}

/// Asks whether the server is there and ready, and how it is.
pub(super) async fn ask(api: &Api, has_token: bool, deadline: Instant) -> Answers {
    let clock = Clock::system();
    let status = async {
        let asked = clock.now();
        let status = timeout_at(deadline, api.status()).await.ok()?;
        Some((status, asked, clock.now()))
    };
    let (mut checks, status) = tokio::join!(ready(api, deadline), status);
    let is_there = checks.iter().any(|check| check.check == "ready");
    let Some((status, asked, answered)) = status.filter(|_| is_there) else { return Answers { checks, status: None } };
    match status {
        Ok(status) => {
            let accepted = if has_token { "it is accepted" } else { "none was given, and none is needed" };
            checks.push(Check::ok("key", accepted));
            let there = UNIX_EPOCH + Duration::from_millis(status.time);
            // The server read its clock between the two moments.
            let late = there.duration_since(answered).unwrap_or_default();
            let early = asked.duration_since(there).unwrap_or_default();
            checks.push(clocks(late.max(early)));
            Answers { checks, status: Some(status) }
        }
        Err(error) => {
            checks.push(refused(&error, has_token));
            Answers { checks, status: None }
        }
    }
}

/// Asks whether the server is there and takes calls.
pub(super) async fn ready(api: &Api, deadline: Instant) -> Vec<Check> {
    match timeout_at(deadline, api.ready()).await {
        Err(_elapsed) => {
            let remedy = "see whether it is busy or stopped, and whether something on the way holds the request up";
            vec![Check::problem("server", format!("{} does not answer", api.url()), remedy)]
        }
        Ok(ready) => reached(api, ready),
    }
}

/// Whether it is a server that answers, and whether it takes calls.
fn reached(api: &Api, ready: Result<(), Error>) -> Vec<Check> {
    let there = || Check::ok("server", format!("{} answers", api.url()));
    match ready {
        Ok(()) => vec![there(), Check::ok("ready", "it takes calls")],
        Err(error) if error.status() == Some(503) => {
            let remedy = "wait if it is being started or stopped; otherwise its log says what is wrong";
            vec![there(), Check::problem("ready", error.to_string(), remedy)]
        }
        Err(error @ Error::Unreachable { .. }) => {
            let remedy = "start it with `handback serve`, or name it with --url or HANDBACK_URL";
            vec![Check::problem("server", error.to_string(), remedy)]
        }
        Err(error) => vec![Check::problem("server", error.to_string(), "name a Handback server with --url")],
    }
}

/// Why the server does not say how it is.
fn refused(error: &Error, has_token: bool) -> Check {
    const REMEDY: &str = "set --token or HANDBACK_TOKEN to an application key of this server";
    match error.status() {
        Some(401) if has_token => Check::problem("key", format!("it is refused: {error}"), REMEDY),
        Some(401) => Check::warning("key", "none was given, so the server says no more", REMEDY),
        Some(403) => Check::warning("key", format!("the server says no more: {error}"), REMEDY),
        Some(404) => {
            let message = "the server is of an earlier version, which cannot say how it is";
            Check::warning("version", message, "bring the server up to the version of this command")
        }
        _ => Check::problem("server", error.to_string(), "see its log"),
    }
}

fn clocks(difference: Duration) -> Check {
    let message = format!("the clocks of server and command differ by {:.1} s", difference.as_secs_f64());
    if difference > CLOCKS_DIFFER {
        let remedy = "set both clocks, by NTP for example: tokens end too early or too late";
        return Check::warning("clock", message, remedy);
    }
    Check::ok("clock", message)
}

/// What a server says of itself.
pub(super) fn describe(status: &ServerStatus) -> Vec<Check> {
    let ServerCounts { clients, connections, tools, calls } = status.counts;
    let kept = match status.store {
        StoreKind::Database => "what it has is kept in a database",
        StoreKind::Memory => "what it has is in memory, and ends with it",
    };
    let uptime = humantime::format_duration(Duration::from_secs(status.uptime / 1_000));
    let counts = format!("clients {clients}, connections {connections}, tools {tools}, calls under way {calls}");
    let mut checks = vec![
        version(&status.version),
        Check::ok("uptime", format!("{uptime}; {kept}")),
        model(&status.model, &status.providers),
        Check::ok("counts", counts),
    ];
    checks.extend(limits(status));
    checks.extend(status.open_files.map(|files| open_files(files, status.bounds.get("limits.connections"))));
    checks
}

fn version(server: &str) -> Check {
    let own = env!("CARGO_PKG_VERSION");
    if server == own {
        return Check::ok("version", format!("the server is {server}, as this command"));
    }
    let message = format!("the server is {server}, and this command {own}");
    Check::warning("version", message, "use one version of both")
}

/// Whether the provider of a model has its key.
pub(super) fn model(model: &str, providers: &BTreeMap<String, ProviderKey>) -> Check {
    let provider = model.split('/').next().unwrap_or_default();
    match providers.get(provider) {
        Some(ProviderKey::Set) => Check::ok("model", format!("{model}, with a key")),
        Some(ProviderKey::None) => Check::ok("model", format!("{model}, without a key")),
        Some(ProviderKey::Missing) => {
            let remedy = format!("give providers.{provider} an apiKeyEnv, or set the variable of its API");
            Check::problem("model", format!("{model} has no key, and its provider wants one"), remedy)
        }
        None => Check::ok("model", format!("{model}, which is built in")),
    }
}

/// The bounds of which much is used.
fn limits(status: &ServerStatus) -> Vec<Check> {
    let near: Vec<Check> = status
        .bounds
        .iter()
        .filter(|(_, bound)| is_near(**bound))
        .map(|(name, BoundUse { used, most })| {
            let remedy = format!("raise {name}, or see who uses that much; beyond it requests are refused");
            Check::warning("limits", format!("{used} of {name} {most} are used"), remedy)
        })
        .collect();
    if near.is_empty() {
        let names: Vec<&str> = status.bounds.keys().map(String::as_str).collect();
        return vec![Check::ok("limits", format!("none is near: {}", names.join(", ")))];
    }
    near
}

fn open_files(files: BoundUse, connections: Option<&BoundUse>) -> Check {
    let BoundUse { used, most } = files;
    let message = format!("{used} of {most} are open");
    match connections {
        _ if is_near(files) => Check::warning(OPEN_FILES, message, RAISE_FILES),
        Some(connections) if connections.most > most => {
            let message = format!("{message}, fewer than limits.connections {}", connections.most);
            Check::warning(OPEN_FILES, message, RAISE_FILES)
        }
        _ => Check::ok(OPEN_FILES, message),
    }
}

fn is_near(bound: BoundUse) -> bool {
    bound.used.saturating_mul(100) >= bound.most.saturating_mul(NEAR_PERCENT)
}

#[cfg(test)]
mod tests;
