//! The PostgreSQL server whose databases are measured. It is there for this program alone, and stops when this has ended, however
//! it ends.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use futures_util::future::join;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// What starts servers, for tests too.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/testkit/postgres.sh");

/// A running server.
pub(crate) struct Postgres {
    /// Where it is, without a database.
    url: String,
    /// Its process, the parent of all others.
    pub(crate) process: u32,
    pub(crate) version: String,
}

impl Postgres {
    /// Starts one that keeps its files in a folder, if its user can enter that. The error is a sentence for the page.
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(SCRIPT);
        let output = command.arg("create").env("TMPDIR", folder).stdin(Stdio::null()).output();
        let output = output.context("what starts PostgreSQL is missing")?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr).trim().lines().last().unwrap_or_default());
        }
        let printed = String::from_utf8(output.stdout)?;
        let (directory, url) = printed.trim_end().split_once('\n').context("PostgreSQL is nowhere")?;
        let pid = std::fs::read_to_string(Path::new(directory).join("data/postmaster.pid"));
        let process = pid.ok().and_then(|pid| pid.lines().next()?.parse().ok()).context("PostgreSQL has no process")?;
        let version = query(url, "SHOW server_version")?;
        let version = version.split_whitespace().next().unwrap_or_default().to_owned();
        Ok(Self { url: url.to_owned(), process, version })
    }

    /// Makes an empty database.
    pub(crate) fn create_database(&self) -> anyhow::Result<Database> {
        // The server gives each of these numbers once.
        let name = format!("bench_{}", query(&self.url, "SELECT pg_current_xact_id()")?);
        query(&self.url, &format!("CREATE DATABASE {name} TEMPLATE template0"))?;
        Ok(Database { server: self.url.clone(), name })
    }
}

/// A database; dropping it drops it there, so that the server has nothing to tidy up in it while others are measured.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    pub(crate) fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // What is left behind goes with the server.
        let _ = query(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Executes SQL on a connection of its own, and gives the first column of the first row, or nothing.
fn query(url: &str, sql: &str) -> anyhow::Result<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let messages = runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let answer = async move { client.simple_query(sql).await };
        // The connection ends when the client is dropped. Why it breaks, the answer says.
        join(connection, answer).await.1
    });
    let first = messages.context("PostgreSQL does not answer")?.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    Ok(first.unwrap_or_default())
}
