//! Everything that the README shows is run, and prints what the README says that it prints.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::command;
use crate::markdown::{Page, Shown, root};
use crate::page::check;
use crate::processes::{Process, start};

#[test]
fn the_readme_is_true() {
    // What comes before is run with what `make packages` makes.
    let [_, page] = Page::split("README.md", "### A server, and its console");
    run(&page, 16);
}

#[test]
fn the_page_on_the_command_is_true() {
    run_page("crates/cli/README.md", 2);
}

#[test]
fn the_page_on_sessions_is_true() {
    run_page("docs/sessions.md", 14);
}

#[test]
fn the_page_on_ag_ui_is_true() {
    run_page("docs/agui.md", 24);
}

#[test]
fn the_page_on_survival_is_true() {
    run_page("docs/survival.md", 8);
}

#[test]
fn the_page_on_operating_is_true() {
    run_page("docs/operating.md", 8);
}

/// Starts the server as a page says, but on a free port and without what the page does not mention: a database and a log.
fn start_as(shown: &str, folder: &Path) -> (Process, String) {
    let arguments =
        ["npx handback", "handback serve", "handback"].into_iter().find_map(|start| shown.strip_prefix(start)).unwrap();
    let (arguments, log) = arguments.split_once(" 2> ").unwrap_or((arguments, ""));
    let mut command = command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(arguments.split_whitespace()).current_dir(folder);
    if !arguments.contains("--data") {
        command.arg("--ephemeral");
    }
    match log {
        "" => command.args(["--log", "off"]),
        log => command.stderr(File::create(folder.join(log)).unwrap()),
    };
    start(command)
}

fn run_page(page: &str, at_least: usize) {
    run(&Page::read(page), at_least);
}

/// Runs all commands of a page. The first one starts the server.
fn run(page: &Page, at_least: usize) {
    let name = page.path.replace('/', "-");
    let folder = std::env::temp_dir().join(format!("handback-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let commands = page.shown();
    assert!(commands.len() >= at_least, "{name} has lost its commands: {commands:#?}");
    assert_eq!(commands[0].output, ["handback listening on http://127.0.0.1:4096"]);
    let (_server, url) = start_as(&commands[0].command, &folder);
    let address = url.strip_prefix("http://").unwrap().replace("127.0.0.1", "localhost");
    let commands = commands.into_iter().skip(1).map(|shown| {
        let command = shown.command.replace("localhost:4096", &address);
        Shown { command, ..shown }
    });
    let binary = Path::new(env!("CARGO_BIN_EXE_handback")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.current_dir(&folder).env("PATH", path).env("HANDBACK_URL", &url).env("XDG_CONFIG_HOME", &folder);
    check(&commands.collect::<Vec<_>>(), &mut bash);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_page_on_configuration_lists_every_key_and_its_default() {
    let page = std::fs::read_to_string(root().join("docs/configuration.md")).unwrap();
    let mut config = command(&["config", "--json"]);
    config.env("HOME", "/home/ada").env_remove("XDG_DATA_HOME");
    let rows = crate::run(config).stdout.replace("/home/ada", "~");
    let rows: Vec<serde_json::Value> = serde_json::from_str(&rows).unwrap();
    let listed = page.lines().filter(|line| line.starts_with("| `")).count();
    assert_eq!(listed, rows.len(), "the page and the settings differ");
    for row in rows {
        let (key, value) = (row["key"].as_str().unwrap(), row["value"].as_str().unwrap());
        let value = if value.is_empty() { "|".to_owned() } else { format!("| `{value}` |") };
        assert!(page.contains(&format!("\n| `{key}` {value}")), "{key} {value} is not on the page");
    }
}

#[test]
fn the_configuration_that_the_page_shows_is_taken() {
    let page = Page::read("docs/configuration.md");
    let path = std::env::temp_dir().join(format!("handback-page-{}.toml", std::process::id()));
    let mut printed = String::new();
    for block in page.code("toml") {
        std::fs::write(&path, block).unwrap();
        let mut config = command(&["config", "--config", path.to_str().unwrap()]);
        config.env("WORK_API_KEY", "a-work-key");
        let ran = crate::run(config);
        assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{block}");
        printed.push_str(&ran.stdout);
    }
    std::fs::remove_file(&path).unwrap();
    for shown in ["60000", "local/qwen3", "client_*_read_*"] {
        assert!(printed.contains(shown), "{shown} is not in {printed}");
    }
    for secret in ["a long random text", "a-work-key"] {
        assert!(!printed.contains(secret), "{printed}");
    }
}

#[test]
fn the_rust_program_of_the_readme_finds_what_it_depends_on() {
    let page = Page::read("README.md");
    let ([manifest], [program]) = (&page.code("toml")[..], &page.code("rust")[..]) else { panic!("{page:#?}") };
    let folder = std::env::temp_dir().join(format!("handback-manifest-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("src")).unwrap();
    let package = "[package]\nname = \"first\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n";
    let crates = root().join("crates");
    let manifest = format!("{package}{manifest}").replace("../handback/crates", crates.to_str().unwrap());
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(folder.join("src/main.rs"), program).unwrap();
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--offline", "--depth", "1", "--prefix", "none", "--format", "{lib}"]).current_dir(&folder);
    let ran = crate::run(cargo);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert_eq!(ran.stdout.split_whitespace().collect::<Vec<_>>(), ["handback_client", "serde", "tokio"]);
    std::fs::remove_dir_all(folder).unwrap();
}
