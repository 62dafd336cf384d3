//! What the README and the page on installing show is run, on a machine without Rust.

use std::time::Duration;

use tokio::time::Instant;

use super::{Machine, packages, succeed};
use crate::markdown::{Page, root};
use crate::page::check;

/// How long it takes from the files to the first call of a tool, with what npm downloads.
const FIRST_CALL: Duration = Duration::from_secs(60);

/// A machine with the packages where a checkout has them.
fn machine(name: &str) -> Machine {
    let machine = Machine::new(name);
    std::fs::create_dir(machine.folder.join("target")).unwrap();
    std::os::unix::fs::symlink(packages(), machine.folder.join("target/packages")).unwrap();
    machine
}

#[test]
#[ignore = "`make packages` runs it"]
fn a_file_and_two_commands_of_the_readme_make_the_first_call_of_a_tool() {
    let [page, _] = Page::split("README.md", "### A server, and its console");
    let (commands, programs) = (page.shown(), page.code("js"));
    assert_eq!((commands.len(), programs.len()), (2, 1), "{page:#?}");
    assert_eq!(commands[1].command, "node first.mjs");
    assert_eq!(commands[1].output[0], "The tool `greet` answered: Hello, Ada!");
    let machine = Machine::new("readme");
    let first = machine.folder.join("first");
    std::fs::create_dir_all(machine.folder.join("handback/target")).unwrap();
    std::os::unix::fs::symlink(packages(), machine.folder.join("handback/target/packages")).unwrap();
    std::fs::create_dir(&first).unwrap();
    std::fs::write(first.join("first.mjs"), programs[0]).unwrap();
    let began = Instant::now();
    check(&commands, machine.command("bash").current_dir(&first));
    assert!(began.elapsed() < FIRST_CALL, "the first call took {:?}", began.elapsed());
}

#[test]
#[ignore = "`make packages` runs it"]
fn each_line_of_the_readme_that_installs_a_package_does_so() {
    let page = std::fs::read_to_string(root().join("README.md")).unwrap();
    let lines: Vec<&str> =
        page.lines().filter_map(|line| line.strip_suffix("` |")?.split_once(" | `").map(|(_, line)| line)).collect();
    let programs = ["npm", "uv", "tar"];
    assert_eq!(lines.iter().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(), programs);
    for (line, program) in lines.iter().zip(programs) {
        let machine = machine(&format!("line-{program}"));
        let home = machine.folder.display();
        // Where this machine's user would have their own packages.
        let path = format!("{home}/bin:{home}/.local/bin:$PATH:$(echo {home}/handback-*)");
        let script = format!("{line} >/dev/null && PATH=\"{path}\" && command -v handback && handback --version");
        let printed = succeed(machine.command("bash").env("npm_config_prefix", &machine.folder).args(["-c", &script]));
        let (place, version) = printed.split_once('\n').unwrap();
        assert!(place.starts_with(&*home.to_string()) && version.starts_with("handback "), "{line}: {printed}");
    }
}

#[test]
#[ignore = "`make packages` runs it"]
fn the_page_on_installing_is_true() {
    let commands = Page::read("docs/installing.md").shown();
    assert_eq!(commands[0].command, "make dist");
    assert!(commands.len() >= 16, "the page has lost its commands: {commands:#?}");
    check(&commands[1..], &mut machine("page").command("bash"));
}
