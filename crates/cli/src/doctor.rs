//! `handback doctor`.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `here` | what can be seen on this machine: settings, data, open files |
//! | `there` | what the server says |

mod here;
mod there;

use std::time::Duration;

use anyhow::bail;
use clap::Args;
use handback_client::Api;
use handback_server::api::operations::providers;
use handback_server::config::Config;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use self::there::Answers;
use crate::config::SettingsArgs;
use crate::connection::QueryArgs;
use crate::output::{one_line, print, print_json};

/// How long all checks may take. What hangs after that is left behind, for which there is a second more.
const PATIENCE: Duration = Duration::from_millis(3_500);

/// How much of that is left for all else when the settings cannot be read.
const PATIENCE_AFTER_SETTINGS: Duration = Duration::from_millis(2_500);

/// A bound is near when so many percent of it are used.
const NEAR_PERCENT: u64 = 80;

/// Says whether a server and the machine around it are well, and what to do where they are not.
///
/// It ends within 5 seconds. The exit code is 1 if there is a problem. Warnings do not change the exit code. Settings are
/// read as `handback serve` reads them; if the server is on another machine, only the server is looked at.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  handback doctor\n  handback doctor --config /etc/handback/handback.toml --json\n  \
                        handback doctor --url https://tools.example.com\n  handback doctor --ready"
)]
pub(crate) struct DoctorArgs {
    /// Check only that the server is there and takes calls, as the health check of a container does.
    #[arg(long)]
    ready: bool,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    query: QueryArgs,
}

/// How something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Ok,
    Warning,
    Problem,
}

/// What was looked at, and how it is.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Check {
    check: &'static str,
    health: Health,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn ok(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, health: Health::Ok, message: message.into(), remedy: None }
    }

    fn warning(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, health: Health::Warning, message: message.into(), remedy: Some(remedy.into()) }
    }

    fn problem(check: &'static str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { health: Health::Problem, ..Self::warning(check, message, remedy) }
    }

    /// The check as a line of text, and one for the remedy. What a server says adds no lines.
    fn text(&self) -> String {
        let health = match self.health {
            Health::Ok => "ok",
            Health::Warning => "warning",
            Health::Problem => "problem",
        };
        let remedy = self.remedy.as_ref().map(|remedy| format!("{:24}→ {}\n", "", one_line(remedy)));
        format!("{health:<9}{:<15}{}\n{}", self.check, one_line(&self.message), remedy.unwrap_or_default())
    }
}

#[derive(Serialize)]
struct Report<'a> {
    health: Health,
    checks: &'a [Check],
}

pub(crate) async fn run(args: DoctorArgs) -> anyhow::Result<()> {
    let is_json = args.query.json;
    let checks = look(args, Instant::now() + PATIENCE).await?;
    let of = |health: Health| checks.iter().filter(|check| check.health == health).count();
    let problems = of(Health::Problem);
    if is_json {
        let health = match (problems, of(Health::Warning)) {
            (0, 0) => Health::Ok,
            (0, _) => Health::Warning,
            _ => Health::Problem,
        };
        print_json(&Report { health, checks: &checks })?;
    } else {
        print(&checks.iter().map(Check::text).collect::<String>())?;
    }
    match problems {
        0 => Ok(()),
        1 => bail!("there is a problem"),
        problems => bail!("there are {problems} problems"),
    }
}

/// Looks at everything until the deadline.
async fn look(args: DoctorArgs, deadline: Instant) -> anyhow::Result<Vec<Check>> {
    let DoctorArgs { ready, settings, query } = args;
    let loaded = in_time("configuration", deadline - PATIENCE_AFTER_SETTINGS, move || here::settings(settings)).await;
    let (config, found) = loaded.unwrap_or_else(|late| (None, vec![late]));
    let listen = config.as_ref().map_or(Config::default().listen, |config| config.listen);
    let named = query.server.given_url();
    let url = named.map_or_else(|| here::url_of(listen), str::to_owned);
    let api = Api::new(&url, query.server.token())?;
    if ready {
        return Ok(there::ready(&api, deadline).await);
    }
    let model = config.as_ref().map(|config| there::model(&config.model.to_string(), &providers(config)));
    let is_here = named.is_none() || here::is_loopback(&url);
    let local = async {
        match config.filter(|_| is_here) {
            Some(config) => {
                let until = deadline - here::MARGIN;
                let looked = in_time("data", deadline, move || here::data(&config, until)).await;
                looked.unwrap_or_else(|late| vec![late])
            }
            None => Vec::new(),
        }
    };
    let (local, answers) = tokio::join!(local, there::ask(&api, query.server.token().is_some(), deadline));
    let Answers { checks: answered, status } = answers;
    let mut checks = vec![Check::ok("command", concat!("handback ", env!("CARGO_PKG_VERSION")))];
    // The settings of this machine are those of a server on it, or of one that is about to be started.
    checks.extend(found.into_iter().filter(|check| is_here || check.health != Health::Ok));
    checks.extend(local);
    checks.extend(answered);
    match &status {
        Some(status) => checks.extend(there::describe(status)),
        None if is_here => checks.extend(model.into_iter().chain([here::open_files()])),
        None => {}
    }
    Ok(checks)
}

/// Runs something that blocks. After the deadline it is left to itself, and a check says so.
async fn in_time<T: Send + 'static>(
    check: &'static str,
    deadline: Instant,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Check> {
    match timeout_at(deadline, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(Check::problem(check, format!("the check failed: {error}"), "report this as a bug")),
        Err(_elapsed) => {
            let remedy = "see whether the disk or network share that it is on is well";
            Err(Check::problem(check, "cannot be read in time", remedy))
        }
    }
}
