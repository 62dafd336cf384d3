//! The examples of the Rust SDK, as a reader runs them: each a process of its own, called by a model in a session.

mod first_run;
mod first_tool;
mod local_time;
mod query_sqlite;
mod read_file;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use handback_testkit::TestServer;
use handback_testkit::server::until;
use handback_testkit::session::tool_part;
use serde_json::Value;
use tokio::process::{Child, Command};

/// An example that runs, and a session whose model can call its tool.
struct Example {
    server: TestServer,
    session: String,
    tool: &'static str,
    /// Killed when it is dropped.
    process: Child,
}

impl Example {
    /// Starts the example that is named like its tool, and waits until it offers it.
    async fn start(client: &str, tool: &'static str, arguments: &[&Path]) -> Self {
        let server = TestServer::start().await;
        let process = Command::new(built(tool))
            .args(arguments)
            .env("HANDBACK_URL", &server.url)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let path = format!("/client-tools/tools/{client}");
        until("the example offers its tool", async || server.get(&path).await.body.as_array().unwrap().len() == 1)
            .await;
        let offered = server.get(&path).await.body;
        assert_eq!(
            (&offered[0]["id"], &offered[0]["effect"]),
            (&format!("client_{client}_{tool}").into(), &"read".into())
        );
        let session = server.session_of(client).await;
        Self { server, session, tool, process }
    }

    /// Lets the model call the tool; gives the state of the call's part.
    async fn call(&self, input: &Value) -> Value {
        self.server.say(&self.session, &self.line(input)).await;
        // The answer's last message is the one after the call.
        let messages = self.server.messages(&self.session).await;
        let calling = messages.iter().rfind(|message| message["parts"].as_array().unwrap().iter().any(is_tool));
        tool_part(calling.expect("a message with a call"))["state"].clone()
    }

    /// The output of a call that must succeed.
    async fn output(&self, input: &Value) -> String {
        let state = self.call(input).await;
        assert_eq!(state["status"], "completed", "{state}");
        state["output"].as_str().unwrap().to_owned()
    }

    /// The error of a call that must fail.
    async fn error(&self, input: &Value) -> String {
        let state = self.call(input).await;
        assert_eq!(state["status"], "error", "{input}: {state}");
        state["error"].as_str().unwrap().to_owned()
    }

    fn line(&self, input: &Value) -> String {
        format!("call {} {input}", self.tool)
    }
}

fn is_tool(part: &Value) -> bool {
    part["type"] == "tool"
}

/// Where cargo puts the example.
fn built(name: &str) -> PathBuf {
    beside_the_tests(&format!("examples/{name}"), &["--package", "handback-client", "--example", name])
}

/// Where cargo puts something of another package. A test of this one alone does not build it.
fn beside_the_tests(path: &str, what: &[&str]) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.ancestors().nth(2).unwrap().join(path);
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let mut build = std::process::Command::new(cargo);
        assert!(build.args(["build", "--quiet"]).args(what).status().unwrap().success());
    }
    path
}
