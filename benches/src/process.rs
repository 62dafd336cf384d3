//! The processes: a fresh server for each run, and the load generator that drives it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::Deserialize;
use tempfile::TempDir;

use crate::machine;
use crate::postgres::{Database, Postgres};
use crate::scenario::{Peer, Scenario, Store};

/// A server that does not say where it listens within this time did not start.
const STARTING: Duration = Duration::from_secs(10);

/// What one run of the load generator reports; see `handback bench --json`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Sample {
    pub(crate) memory: Option<Memory>,
    pub(crate) load: Option<Load>,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) growing: Option<Growing>,
    /// What `hub` reports, which drives no server.
    pub(crate) hub: Option<HubLoad>,
    #[serde(default)]
    pub(crate) errors: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Memory {
    /// Of the whole server, before any client came.
    pub(crate) before: f64,
    pub(crate) per_client: f64,
}

/// Of calls or of turns, whichever the run was of.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Load {
    #[serde(rename = "callsPerSecond", alias = "turnsPerSecond")]
    pub(crate) per_second: f64,
    #[serde(rename = "latencyMs")]
    pub(crate) latency_ms: Latency,
    /// In microseconds for each.
    #[serde(rename = "serverCpuUsPerCall", alias = "serverCpuUsPerTurn")]
    pub(crate) server_cpu: f64,
    #[serde(rename = "generatorCpuUsPerCall", alias = "generatorCpuUsPerTurn")]
    pub(crate) generator_cpu: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Waiting {
    pub(crate) memory: WaitingMemory,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WaitingMemory {
    pub(crate) per_session: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Growing {
    pub(crate) early: Stretch,
    pub(crate) late: Stretch,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Stretch {
    /// The first and the last turn.
    pub(crate) turns: (u32, u32),
    /// In microseconds for each.
    #[serde(rename = "serverCpuUsPerTurn")]
    pub(crate) server_cpu: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HubLoad {
    pub(crate) calls_per_second: f64,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

/// The programs, all from one build but perhaps the server, and what they need.
pub(crate) struct Binaries {
    folder: PathBuf,
    server: PathBuf,
    /// For servers that keep what they keep there; it is started when they are measured.
    postgres: Option<Postgres>,
}

impl Binaries {
    /// Finds them in the folder of this program.
    pub(crate) fn beside_this() -> anyhow::Result<Self> {
        let this = std::env::current_exe()?;
        let folder = this.parent().context("this program is in no folder")?.to_owned();
        for name in ["handback", "floor", "hub"] {
            ensure!(
                folder.join(name).exists(),
                "`{name}` is not built: cargo build --release -p handback -p handback-benches"
            );
        }
        let server = folder.join("handback");
        Ok(Self { folder, server, postgres: None })
    }

    /// The same with another server.
    pub(crate) fn with_server(&self, server: &Path) -> anyhow::Result<Self> {
        let server = server.canonicalize().with_context(|| format!("{} is not there", server.display()))?;
        Ok(Self { folder: self.folder.clone(), server, postgres: None })
    }

    /// Starts PostgreSQL, and returns its version. Its files are where SQLite's are, if it may go there.
    pub(crate) fn start_postgres(&mut self) -> anyhow::Result<String> {
        Ok(self.postgres.insert(Postgres::start(&self.folder)?).version.clone())
    }

    /// The process of PostgreSQL, if it runs.
    pub(crate) fn postgres_process(&self) -> Option<u32> {
        self.postgres.as_ref().map(|postgres| postgres.process)
    }

    /// Starts a server, drives it through a scenario and stops it; or makes calls through the hub alone.
    pub(crate) fn measure(&self, peer: Peer, scenario: Scenario, seconds: u32) -> anyhow::Result<Sample> {
        let arguments = scenario.arguments();
        let duration = ["--duration".to_owned(), seconds.to_string()];
        let report = if let Scenario::Hub(_) = scenario {
            output(self.command("hub", []).args(arguments).args(duration))
        } else {
            let server = self.start_with(peer, &scenario.server_arguments(), scenario.server_settings())?;
            let mut bench = self.command("handback", ["bench", "--json", "--url", &server.url]);
            output(bench.args(arguments).args(duration).args(["--warmup", "1"]))
        };
        report.with_context(|| format!("{}, {scenario}", peer.name()))
    }

    /// Starts a server as it is by default.
    pub(crate) fn start(&self, peer: Peer) -> anyhow::Result<Server> {
        self.start_with(peer, &[], &[])
    }

    fn start_with(&self, peer: Peer, arguments: &[String], settings: &[(&str, &str)]) -> anyhow::Result<Server> {
        let (mut data, mut database) = (None, None);
        let mut command = match peer {
            Peer::Handback(store) => {
                let mut command = self.command(&self.server, ["serve", "--listen", "127.0.0.1:0"]);
                match store {
                    Store::Memory => command.arg("--ephemeral"),
                    // Beside the programs: the usual place for such folders may be in memory, too.
                    Store::Sqlite => command.arg("--data").arg(data.insert(tempfile::tempdir_in(&self.folder)?).path()),
                    Store::Postgres => {
                        let postgres = self.postgres.as_ref().context("PostgreSQL does not run")?;
                        command.arg("--database").arg(database.insert(postgres.create_database()?).url())
                    }
                };
                command
            }
            Peer::Floor => self.command("floor", ["--listen", "127.0.0.1:0"]),
        };
        // The calls of models are limited by default, and those of a bench are more.
        command.args(arguments).env("HANDBACK_LIMITS_CALLS_PER_MINUTE", "0").envs(settings.iter().copied());
        let mut server = Server::start(&mut command, &self.folder.join("bench-server.log"), data)?;
        server._database = database;
        Ok(server)
    }

    /// Starts a server with what another one has stored.
    pub(crate) fn start_again(&self, data: TempDir) -> anyhow::Result<Server> {
        let mut command = self.command(&self.server, ["serve", "--listen", "127.0.0.1:0", "--data"]);
        Server::start(command.arg(data.path()), &self.folder.join("bench-server.log"), Some(data))
    }

    /// A command that no setting of the user's, in the environment or in a file nearby, reaches. A server logs what goes wrong,
    /// and nothing else.
    fn command<const N: usize>(&self, program: impl AsRef<Path>, arguments: [&str; N]) -> Command {
        // A full path stays what it is.
        let mut command = Command::new(self.folder.join(program));
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        for (key, _) in std::env::vars_os().filter(|(key, _)| is_setting(key)) {
            command.env_remove(key);
        }
        command.env("HANDBACK_LOG", "warn");
        command
    }
}

/// Runs a program to its end, and reads what it prints.
fn output(command: &mut Command) -> anyhow::Result<Sample> {
    let output = command.output().context("cannot start the load generator")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("cannot read the report of a run: {}", String::from_utf8_lossy(&output.stdout).trim()))
}

fn is_setting(key: &OsStr) -> bool {
    key == "RUST_LOG" || key.to_string_lossy().starts_with("HANDBACK_")
}

/// A running server; it is stopped when this is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) url: String,
    /// What it keeps; removed after it has been stopped.
    data: Option<TempDir>,
    /// The same, on PostgreSQL.
    _database: Option<Database>,
}

impl Server {
    fn start(command: &mut Command, log: &Path, data: Option<TempDir>) -> anyhow::Result<Self> {
        let log_file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let child = command.stdout(Stdio::piped()).stderr(log_file).spawn().context("cannot start a server")?;
        let mut server = Self { child, url: String::new(), data, _database: None };
        let stdout = server.child.stdout.take().context("a server without output")?;
        let (sender, receiver) = mpsc::channel();
        // It goes on reading after the address: a server whose output nobody takes would stand still.
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some((_, url)) = line.split_once(" listening on ") {
                    // Only the first address is waited for.
                    let _ = sender.send(url.trim().to_owned());
                }
            }
        });
        server.url = receiver
            .recv_timeout(STARTING)
            .with_context(|| format!("a server did not start; see {}", log.display()))?;
        Ok(server)
    }

    /// Its host and port.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://")
    }

    /// Kills it, and leaves what it has stored.
    pub(crate) fn kill(mut self) -> Option<TempDir> {
        self.data.take()
    }

    /// Its resident memory in bytes: `VmRSS` is that of now, `VmHWM` the most since it was last forgotten.
    pub(crate) fn memory(&self, field: &str) -> anyhow::Result<u64> {
        let text = machine::field(&format!("/proc/{}/status", self.child.id()), field);
        let kilobytes = text.as_deref().and_then(|text| text.strip_suffix(" kB")?.parse::<u64>().ok());
        Ok(kilobytes.context("the server has ended")? << 10)
    }

    /// Forgets the most memory that it had.
    pub(crate) fn forget_peak(&self) -> anyhow::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5").context("the server has ended")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It fails only for a process that has ended, and that is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
