//! PostgreSQL databases that go with their tests.
//!
//! A [`TestDatabase`] is on the server of the whole run, which `postgres.sh` starts. A test that needs it has `postgres` in
//! its path: nextest starts the server for such tests. An [`OwnPostgres`] is a server of the test's own, which it can stop,
//! kill and start again.
//!
//! Everything here blocks for a moment, and may be used inside and outside of a runtime.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use futures_util::future::join;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// Where the server of the run is: its URL without a database.
const SERVER: &str = "HANDBACK_TEST_POSTGRES";
/// What starts and stops servers.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/postgres.sh");

/// An empty database; dropping it drops it there, whoever is connected to it.
#[derive(Debug)]
pub struct TestDatabase {
    server: String,
    name: String,
}

impl TestDatabase {
    /// Makes one.
    pub fn create() -> Self {
        let server = std::env::var(SERVER).unwrap_or_else(|_| {
            panic!(
                "{SERVER} is not set, so there is no PostgreSQL server: use `cargo nextest run` or `make test`, or put \
                 `crates/testkit/postgres.sh run` before the command; the path of the test must have `postgres` in it"
            )
        });
        // The server gives each of these numbers once, so the name is new even if an earlier test could not tidy up.
        let number = query(&server, "SELECT pg_current_xact_id()").expect("the server gives a number");
        let name = format!("test_{}", number[0]);
        // Others may be connected to the other template, which then cannot be copied.
        query(&server, &format!("CREATE DATABASE {name} TEMPLATE template0")).expect("the database is created");
        Self { server, name }
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("{}/{}", self.server, self.name)
    }

    /// What the server calls it.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // What is left behind goes with the server.
        _ = query(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// A server of a test's own that keeps what was committed, however it ends; dropping it stops it and removes all of it.
#[derive(Debug)]
pub struct OwnPostgres {
    directory: PathBuf,
    url: String,
}

impl OwnPostgres {
    /// Starts one.
    pub fn start() -> Self {
        let told = script(&["create"]);
        let (directory, url) = told.trim_end().split_once('\n').expect("the directory and the URL, a line each");
        Self { directory: directory.into(), url: url.to_owned() }
    }

    /// Where its database is. It stays there when it is started again.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Stops it: transactions are rolled back, connections are closed, and all is written.
    pub fn stop(&mut self) {
        self.script("stop", &["fast"]);
    }

    /// Stops it as a crash does: it recovers when it is started again.
    pub fn kill(&mut self) {
        self.script("stop", &["immediate"]);
    }

    /// Starts it after it was stopped or killed.
    pub fn start_again(&mut self) {
        self.script("start", &[]);
    }

    fn script(&self, command: &str, more: &[&str]) {
        let directory = self.directory.to_str().expect("the path is a text");
        script(&[&[command, directory], more].concat());
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        // What is left behind goes with the process of the test.
        _ = Command::new(SCRIPT).arg("remove").arg(&self.directory).output();
    }
}

/// Runs `postgres.sh`, and gives what it prints.
fn script(arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } = Command::new(SCRIPT).args(arguments).output().expect("the script starts");
    assert!(status.success(), "postgres.sh {arguments:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).expect("it prints a text")
}

/// Executes SQL on a connection of its own, and gives the first column of all rows, with the empty text for NULL.
pub fn query(url: &str, sql: &str) -> Result<Vec<String>, tokio_postgres::Error> {
    let work = async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
        let answer = async move { client.simple_query(sql).await };
        // The connection ends when the client is dropped. Why it breaks, the answer says.
        let (_, answer) = join(connection, answer).await;
        let rows = answer?.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        });
        Ok(rows.collect())
    };
    // A runtime cannot be started on a thread that has one.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("the runtime starts").block_on(work)
        });
        thread.join().expect("the query ends without a panic")
    })
}
