//! The page on installing: all that it shows is run, on a machine without Rust.

use std::time::{Duration, Instant};

use super::{Machine, packages, repository};
use crate::page::{check, shown};

/// How long it takes from the files to the first call of a tool, with what npm downloads.
const FIRST_CALL: Duration = Duration::from_secs(60);

#[test]
#[ignore = "`make packages` runs it"]
fn the_page_on_installing_is_true_and_three_commands_make_the_first_call() {
    let machine = Machine::new("page");
    std::fs::create_dir(machine.folder.join("target")).unwrap();
    std::os::unix::fs::symlink(packages(), machine.folder.join("target/packages")).unwrap();
    let page = std::fs::read_to_string(repository().join("docs/installing.md")).unwrap();
    let commands = shown(&page);
    assert_eq!(commands[0].command, "make dist");
    let (before, _) = page.split_once("## The files").unwrap();
    let (first, others) = commands[1..].split_at(shown(before).len() - 1);
    assert!(first.len() == 3 && first[2].output[0].contains("Hello, Ada!"), "{first:#?}");
    assert!(others.len() >= 15, "the page has lost its commands: {others:#?}");

    let began = Instant::now();
    check(first, &mut machine.command("bash"));
    assert!(began.elapsed() < FIRST_CALL, "the first call took {:?}", began.elapsed());
    check(others, &mut machine.command("bash"));
}
