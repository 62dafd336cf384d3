//! What the front page shows of the Rust SDK: it is the example, it is short, and it does what it says.

use std::process::Command;

use super::{beside_the_tests, built};

const README: &str = include_str!("../../../../../README.md");
const EXAMPLE: &str = include_str!("../../../../client/examples/first_tool.rs");

fn shown() -> &'static str {
    README.split("\n```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of Rust")
}

#[test]
fn the_readme_shows_the_example_in_twelve_lines() {
    assert!(EXAMPLE.ends_with(&format!("\n\n{}", shown())), "they differ");
    assert!(shown().lines().count() <= 12, "{} lines", shown().lines().count());
}

#[test]
fn a_model_calls_the_first_tool() {
    let handback = beside_the_tests("handback", &["--package", "handback"]);
    let output = Command::new(built("first_tool")).env("HANDBACK_BINARY", handback).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed, "The tool `greet` answered: Hello, Ada!\n", "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success());
}
