//! What is in a page of the documentation: blocks of code, commands with what they print, prose, links, headings.

use std::path::{Path, PathBuf};

/// A block of code.
#[derive(Debug, PartialEq)]
pub(crate) struct Block {
    /// What stands behind the fence, such as `ts run`.
    pub(crate) language: String,
    pub(crate) code: String,
}

/// A command, and what it prints.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// A page: its blocks of code, and the text around them.
#[derive(Debug)]
pub(crate) struct Page {
    /// The path from the root of the repository.
    pub(crate) path: String,
    pub(crate) blocks: Vec<Block>,
    prose: String,
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

impl Page {
    pub(crate) fn read(path: &str) -> Self {
        Self::of(path, &std::fs::read_to_string(root().join(path)).unwrap())
    }

    /// The parts of a page before a heading, and from there on.
    pub(crate) fn split(path: &str, heading: &str) -> [Self; 2] {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        let (before, after) = text.split_once(&format!("\n{heading}\n")).unwrap();
        [before, after].map(|part| Self::of(path, part))
    }

    fn of(path: &str, text: &str) -> Self {
        let (mut blocks, mut prose, mut open): (Vec<Block>, String, bool) = Default::default();
        for line in text.lines() {
            match (line.strip_prefix("```"), open) {
                (Some(language), false) => {
                    blocks.push(Block { language: language.to_owned(), code: String::new() });
                    open = true;
                }
                (Some(_), true) => open = false,
                (None, true) => blocks.last_mut().unwrap().code.extend([line, "\n"]),
                (None, false) => prose.extend([line, "\n"]),
            }
        }
        assert!(!open, "{path} ends in a block");
        Self { path: path.to_owned(), blocks, prose }
    }

    /// The blocks of a language.
    pub(crate) fn code(&self, language: &str) -> Vec<&str> {
        self.blocks.iter().filter(|block| block.language == language).map(|block| block.code.as_str()).collect()
    }

    /// The commands of all `console` blocks: `$` begins one, `>` goes on with it, the rest is output.
    pub(crate) fn shown(&self) -> Vec<Shown> {
        let mut commands: Vec<Shown> = Vec::new();
        for line in self.code("console").into_iter().flat_map(str::lines) {
            if let Some(command) = line.strip_prefix("$ ") {
                commands.push(Shown { command: command.to_owned(), output: Vec::new() });
            } else if let Some(more) = line.strip_prefix("> ").or_else(|| line.strip_prefix('>')) {
                let shown = commands.last_mut().unwrap();
                shown.command = format!("{}\n{more}", shown.command);
            } else {
                commands.last_mut().unwrap().output.push(line.to_owned());
            }
        }
        commands
    }

    /// What stands between backticks in the prose.
    pub(crate) fn marked(&self) -> Vec<String> {
        self.prose.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")).collect()
    }

    /// Where the links lead.
    pub(crate) fn links(&self) -> Vec<&str> {
        // What looks like a link in code is none.
        let text = self.prose.split('`').step_by(2);
        text.flat_map(|text| text.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
    }

    /// The anchors of the headings: their words in small letters, joined by `-`.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let headings = self.prose.lines().filter(|line| line.starts_with('#'));
        let mut anchors: Vec<String> = Vec::new();
        for heading in headings {
            let words = heading.trim_start_matches('#').trim().to_lowercase();
            let kept = words.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
            let anchor: String = kept.map(|char| if char == ' ' { '-' } else { char }).collect();
            let same = anchors.iter().filter(|other| **other == anchor).count();
            anchors.push(if same > 0 { format!("{anchor}-{same}") } else { anchor });
        }
        anchors
    }
}

/// All pages of the repository.
pub(crate) fn pages() -> Vec<Page> {
    let mut paths = Vec::new();
    find(&root(), &mut paths);
    paths.sort();
    let name = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().replace('\\', "/");
    paths.iter().map(|path| Page::read(&name(path))).collect()
}

/// Finds Markdown, but not in what was installed or built.
fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && !name.starts_with('.') && !matches!(name, "node_modules" | "target" | "dist") {
            find(&path, found);
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}
