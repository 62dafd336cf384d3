//! The plan of the house: which room may know which, nobody reaches past a front door, and files stay short.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The rooms of the core from the top down. Each may use those below it, except that tools do not use events.
const ROOMS: [&str; 6] = ["sessions", "calls", "cluster", "tools", "events", "store"];
/// The longest a file may be, in lines.
const LONGEST: usize = 600;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All Rust files below a folder that are part of the product.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The room that a file of the core is in.
fn room(core: &Path, file: &Path) -> Option<&'static str> {
    let first = file.strip_prefix(core).unwrap().iter().next().unwrap().to_str().unwrap();
    ROOMS.into_iter().find(|room| *room == first.trim_end_matches(".rs"))
}

/// What a file takes from a room: the first names behind `crate::room::`.
fn taken<'a>(source: &'a str, from: &str) -> BTreeSet<&'a str> {
    let marker = format!("crate::{from}::");
    let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
    let named = code.flat_map(|line| line.split(&marker as &str).skip(1).collect::<Vec<_>>());
    named.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()).collect()
}

#[test]
fn rooms_of_the_core_know_only_those_below_them_and_come_in_by_the_front_door() {
    let core = crates().join("core/src");
    let mut arrows = 0;
    for file in sources(&core) {
        let Some(own) = room(&core, &file) else { continue };
        let source = std::fs::read_to_string(&file).unwrap();
        let floor = |room: &str| ROOMS.iter().position(|known| *known == room).unwrap();
        for other in ROOMS.into_iter().filter(|other| *other != own) {
            let names = taken(&source, other);
            if names.is_empty() {
                continue;
            }
            arrows += 1;
            assert!(floor(own) < floor(other), "{} is in {own} and uses {other}", file.display());
            assert!(!(own == "tools" && other == "events"), "{} is in tools and uses events", file.display());
            // A module's name begins with a small letter, and `weight` and functions are exported as they are.
            let door = std::fs::read_to_string(core.join(format!("{other}.rs"))).unwrap();
            for name in names.into_iter().filter(|name| name.starts_with(char::is_lowercase)) {
                let is_private = door.contains(&format!("\nmod {name};"));
                assert!(!is_private, "{} reaches past the front door of {other}: {name}", file.display());
            }
        }
    }
    assert!(arrows > 20, "nothing was looked at");
}

#[test]
fn the_ground_knows_no_room() {
    let core = crates().join("core/src");
    for file in sources(&core) {
        let is_door = file.file_name().is_some_and(|name| name == "lib.rs");
        if is_door || room(&core, &file).is_some() {
            continue;
        }
        let source = std::fs::read_to_string(&file).unwrap();
        for other in ROOMS {
            assert!(taken(&source, other).is_empty(), "{} uses {other}", file.display());
        }
    }
}

#[test]
fn no_file_is_too_long() {
    let mut looked_at = 0;
    for name in ["cli", "client", "core", "server", "wire"] {
        for file in sources(&crates().join(name).join("src")) {
            let lines = std::fs::read_to_string(&file).unwrap().lines().count();
            assert!(lines <= LONGEST, "{} has {lines} lines", file.display());
            looked_at += 1;
        }
    }
    assert!(looked_at > 200, "nothing was looked at");
}

/// What a page of the documentation has between backticks, outside of blocks of code.
fn marked(page: &str) -> Vec<String> {
    let prose = page.split("```").step_by(2);
    prose.flat_map(|text| text.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn files_that_the_documentation_names_are_there() {
    let root = crates().parent().unwrap().to_owned();
    let mut looked_at = 0;
    for page in ["docs/architecture.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        let is_file = |name: &&String| name.contains('/') && name.ends_with(".rs") && !name.contains('<');
        for name in marked(&text).iter().filter(is_file).filter(|name| !name.starts_with("foo/")) {
            let is_there = [root.join(name), root.join("crates").join(name)].iter().any(|path| path.exists());
            assert!(is_there, "{page} names {name}");
            looked_at += 1;
        }
    }
    assert!(looked_at > 100, "nothing was looked at");
}

#[test]
fn words_of_the_glossary_are_in_the_files_that_it_names() {
    let page = std::fs::read_to_string(crates().parent().unwrap().join("docs/architecture.md")).unwrap();
    let mut looked_at = 0;
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        let last = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let [word, file] = &marked(last)[..] else { continue };
        if !file.ends_with(".rs") {
            continue;
        }
        let source = std::fs::read_to_string(crates().join(file)).unwrap();
        for name in word.split("::") {
            let is_word = |found: &str| found.split(|c: char| !c.is_alphanumeric() && c != '_').any(|it| it == name);
            assert!(source.lines().any(is_word), "the glossary looks for {word} in {file}");
        }
        looked_at += 1;
    }
    assert!(looked_at > 40, "nothing was looked at");
}

#[test]
fn a_chat_request_and_a_run_cross_few_files() {
    let page = std::fs::read_to_string(crates().parent().unwrap().join("docs/architecture.md")).unwrap();
    for (walk, most) in [("### A chat request", 10), ("### An AG-UI run", 12)] {
        let steps = page.split(walk).nth(1).unwrap().split("\n#").next().unwrap();
        let files = steps.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
        assert!((5..=most).contains(&files), "{walk}: {files} files");
    }
}
