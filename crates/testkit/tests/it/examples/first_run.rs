//! What the guide shows of a front end in Rust: it is the example, and it does what it says.

use std::process::Stdio;

use handback_testkit::TestServer;
use tokio::process::Command;

use super::built;

const GUIDE: &str = include_str!("../../../../../docs/agui.md");
const EXAMPLE: &str = include_str!("../../../../client/examples/first_run.rs");

/// The first block of a language after a place.
fn block<'a>(text: &'a str, language: &str) -> &'a str {
    let start = format!("\n```{language}\n");
    text.split(&start).nth(1).and_then(|rest| rest.split("```").next()).expect("a block")
}

#[test]
fn the_guide_shows_the_example() {
    assert!(EXAMPLE.ends_with(&format!("\n\n{}", block(GUIDE, "rust"))), "they differ");
}

#[tokio::test]
async fn an_agent_calls_the_tool_of_a_front_end() {
    let server = TestServer::start().await;
    let mut example = Command::new(built("first_run"));
    let output =
        example.env("HANDBACK_URL", &server.url).stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap();
    let (_, after) = GUIDE.split_once("\n```rust\n").expect("a program");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        block(after, "text"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success());
}
