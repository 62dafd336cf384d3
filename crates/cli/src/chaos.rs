//! `handback chaos`.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Context;
use clap::Args;
use handback_chaos::{Chaos, Plan};

use crate::exit::UsageError;
use crate::output::{print, remark};
use crate::signals::run_until_stopped;

/// Runs a proxy that does to connections what networks do: cuts, stalls, delays, repeats, throttles. For tests of what
/// survives it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  handback chaos --target http://127.0.0.1:4096 --plan 7\n\nThe plan is printed first. \
                        Saved to a file, and changed perhaps, it can be given to --plan: the same plan decides the same."
)]
pub(crate) struct ChaosArgs {
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4097")]
    listen: SocketAddr,
    /// The URL of the server; only http.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:4096")]
    target: String,
    /// A file with a plan, or a number: the usual plan with this seed [default: the usual plan with a new seed].
    #[arg(long, value_name = "FILE|SEED")]
    plan: Option<String>,
}

pub(crate) async fn run(args: ChaosArgs) -> anyhow::Result<()> {
    let (plan, target) = (plan(args.plan.as_deref())?, host_and_port(&args.target)?);
    run_until_stopped(|stopped| async move {
        print(&format!("{plan}"))?;
        let listen = args.listen;
        let chaos =
            Chaos::start(listen, &target, plan).await.with_context(|| format!("{listen} cannot be listened on"))?;
        print(&format!("# handback chaos listening on {} for {}\n", chaos.url(), args.target))?;
        stopped.cancelled_owned().await;
        for (fault, times) in chaos.report() {
            remark(&format!("{fault} {times}"));
        }
        Ok(())
    })
    .await
}

fn plan(said: Option<&str>) -> anyhow::Result<Plan> {
    let Some(said) = said else { return Ok(Plan::seeded(fastrand::u32(..).into())) };
    let digits = said.strip_prefix(['-', '+']).unwrap_or(said);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let not_a_seed = |_| UsageError(format!("--plan: a seed is a number from 0 to {}, not {said}", u64::MAX));
        return Ok(Plan::seeded(said.parse().map_err(not_a_seed)?));
    }
    let text = std::fs::read_to_string(Path::new(said)).with_context(|| format!("--plan: {said} cannot be read"))?;
    text.parse().map_err(|error| UsageError(format!("--plan: {said}: {error}")).into())
}

/// The host and the port of a URL.
fn host_and_port(target: &str) -> anyhow::Result<String> {
    let not_a_url =
        || UsageError(format!("--target: \"{target}\" is not the URL of a server, such as http://127.0.0.1:4096"));
    let url = reqwest::Url::parse(target).map_err(|_| not_a_url())?;
    match (url.scheme(), url.host_str(), url.port_or_known_default()) {
        ("http", Some(host), Some(port))
            if url.as_str().trim_end_matches('/') != url.origin().ascii_serialization() =>
        {
            let only =
                format!("--target: only a host and a port (http://{host}:{port}): requests pass with their own paths");
            Err(UsageError(only).into())
        }
        ("http", Some(host), Some(port)) => Ok(format!("{host}:{port}")),
        ("https", ..) => Err(UsageError("--target: only http: what is encrypted cannot be repeated".to_owned()).into()),
        _ => Err(not_a_url().into()),
    }
}
