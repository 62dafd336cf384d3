//! What the documentation says beside its commands: links lead somewhere, the commands that it names are there, and no code
//! in it is one that nobody tries.

use std::collections::{BTreeMap, BTreeSet};

use crate::handback;
use crate::markdown::{Page, pages, root};

/// The blocks of code that somebody tries, and who does. Blocks of `text` are none that could be tried.
const TESTED: [(&str, &str, &str); 21] = [
    ("README.md", "console", "crates/cli/tests/it/readme.rs"),
    ("README.md", "js", "crates/cli/tests/it/packages/page.rs"),
    ("README.md", "rust", "crates/testkit/tests/it/examples/first_tool.rs"),
    ("README.md", "toml", "crates/cli/tests/it/readme.rs"),
    ("crates/cli/README.md", "console", "crates/cli/tests/it/readme.rs"),
    ("crates/client/README.md", "rust,no_run", "crates/client/src/lib.rs"),
    ("crates/server/README.md", "rust,no_run", "crates/server/src/lib.rs"),
    ("docs/agui.md", "console", "crates/cli/tests/it/readme.rs"),
    ("docs/agui.md", "js", "foreign/agui/guide.test.js"),
    ("docs/agui.md", "rust", "crates/testkit/tests/it/examples/first_run.rs"),
    ("docs/agui.md", "toml", "foreign/agui/guide.test.js"),
    ("docs/chat.md", "toml", "foreign/react/guide.test.js"),
    ("docs/chat.md", "ts", "foreign/react/guide.test.js"),
    ("docs/chat.md", "tsx", "foreign/react/guide.test.js"),
    ("docs/configuration.md", "toml", "crates/cli/tests/it/readme.rs"),
    ("docs/installing.md", "console", "crates/cli/tests/it/packages/page.rs"),
    ("docs/operating.md", "console", "crates/cli/tests/it/readme.rs"),
    ("docs/sessions.md", "console", "crates/cli/tests/it/readme.rs"),
    ("docs/survival.md", "console", "crates/cli/tests/it/readme.rs"),
    ("sdk/typescript/README.md", "ts", "sdk/typescript/test/package/readme.test.ts"),
    ("sdk/typescript/README.md", "ts run", "sdk/typescript/test/package/readme.test.ts"),
];

#[test]
fn every_link_leads_somewhere() {
    let (pages, mut followed) = (pages(), 0);
    for page in &pages {
        for link in page.links() {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            followed += 1;
            let (file, anchor) = link.split_once('#').map_or((link, None), |(file, anchor)| (file, Some(anchor)));
            let from = root().join(&page.path);
            let target = if file.is_empty() { from } else { from.parent().unwrap().join(file) };
            let target = target.canonicalize();
            let target = target.unwrap_or_else(|error| panic!("{} leads to {link}: {error}", page.path));
            if let Some(anchor) = anchor {
                let of = pages.iter().find(|other| root().join(&other.path) == target);
                let anchors = of.unwrap_or_else(|| panic!("{} leads to {link}, which is no page", page.path)).anchors();
                assert!(
                    anchors.iter().any(|known| known == anchor),
                    "{} leads to {link}, not one of {anchors:#?}",
                    page.path
                );
            }
        }
    }
    assert!(followed > 100, "{followed} links");
}

#[test]
fn every_block_of_code_is_tried_by_somebody() {
    let blocks = |page: &Page| page.blocks.iter().map(|block| block.language.clone()).collect::<BTreeSet<String>>();
    let blocks = pages()
        .into_iter()
        .flat_map(|page| blocks(&page).into_iter().map(move |language| (page.path.clone(), language)));
    let is_code = |(_, language): &(String, String)| !matches!(language.as_str(), "" | "text");
    let blocks: BTreeSet<(String, String)> = blocks.filter(is_code).collect();
    let tested = TESTED.map(|(page, language, _)| (page.to_owned(), language.to_owned()));
    assert_eq!(blocks, tested.into(), "the documentation and the table differ");
    for (page, language, tester) in TESTED {
        let source = std::fs::read_to_string(root().join(tester)).unwrap();
        let name = page.rsplit('/').next().unwrap();
        assert!(source.contains(name), "{tester} does not try {language} of {page}");
    }
}

/// A command: the commands below it, and its flags, each with whether it takes a value.
#[derive(Debug, Default)]
struct Known {
    commands: BTreeMap<String, Known>,
    flags: BTreeMap<String, bool>,
}

impl Known {
    /// What the help of a command lists.
    fn read(path: &[&str]) -> Self {
        let help = handback(&[path, &["--help"]].concat());
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{path:?}");
        let mut known = Self::default();
        let mut section = "";
        for line in help.stdout.lines().filter(|line| !line.is_empty()) {
            let entry = line.trim_start();
            if !line.starts_with(' ') {
                section = line;
            } else if section == "Commands:" && line.starts_with("  ") && !line.starts_with("   ") {
                let name = entry.split(' ').next().unwrap();
                if name != "help" {
                    known.commands.insert(name.to_owned(), Self::read(&[path, &[name]].concat()));
                }
            } else if section == "Options:"
                && let Some(flag) = entry.strip_prefix("-")
            {
                let flag = flag.split_once(", --").map_or(flag, |(_, flag)| flag).trim_start_matches('-');
                let name = flag.split([' ', '=']).next().unwrap();
                known.flags.insert(format!("--{name}"), flag.split("  ").next().unwrap().contains('<'));
            }
        }
        known
    }

    /// What is wrong with the words after `handback`.
    fn complain(&self, words: &[String]) -> Option<String> {
        let (mut command, mut is_root, mut rest) = (self, true, words.iter());
        while let Some(word) = rest.next() {
            match word.as_str() {
                "--" => return None,
                "-h" | "-V" => {}
                flag if flag.starts_with("--") => {
                    let (name, value) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
                    match command.flags.get(name) {
                        None => return Some(format!("there is no flag {name}")),
                        Some(true) if value.is_none() => _ = rest.next(),
                        Some(_) => {}
                    }
                }
                word => match command.commands.get(word) {
                    Some(inner) => (command, is_root) = (inner, false),
                    None if is_root => return Some(format!("there is no command {word}")),
                    None => {}
                },
            }
        }
        None
    }
}

/// The words of each use of a program in a piece of code, up to the end of its command.
fn uses(code: &str, program: &str) -> Vec<Vec<String>> {
    let code = code.replace("\\\n", " ");
    let mut uses = Vec::new();
    for (place, _) in code.match_indices(program) {
        let (before, after) = (&code[..place], &code[place + program.len()..]);
        if is_begun(before) && after.starts_with([' ', '\n']) {
            uses.push(words(after));
        }
    }
    uses
}

/// Whether a command may begin behind this text.
fn is_begun(before: &str) -> bool {
    let line = before.rsplit('\n').next().unwrap();
    let words = line.split([';', '|', '&', '(']).next_back().unwrap();
    // In front of a command stand at most variables and words of the shell.
    let is_prefix = |word: &str| word.contains('=') || ["$", ">", "until", "if", "!", "do", "then"].contains(&word);
    (words.is_empty() || words.ends_with(' ')) && words.split_whitespace().all(is_prefix)
}

/// The words of a command, as a shell reads them, up to its end.
fn words(code: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for char in code.chars() {
        match (quote, char) {
            (Some(open), _) if open == char => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(char),
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | '&' | ';' | '\n' | ')' | '>' | '<' | '`') => break,
            (None, ' ') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(char),
        }
    }
    // The number in front of `2>` is no word of the command.
    words.extend(word.filter(|word| word != "2"));
    words
}

/// Each piece of code of a page: blocks, commands without what they print, and what stands between backticks.
fn code(page: &Page) -> Vec<String> {
    let blocks = page.blocks.iter().filter(|block| block.language != "console").map(|block| block.code.clone());
    let lines = page.shown().into_iter().map(|shown| shown.command).chain(page.marked());
    blocks.chain(lines.map(|code| format!("{code}\n"))).collect()
}

#[test]
fn commands_and_flags_that_the_documentation_names_are_there() {
    let (known, mut looked_at) = (Known::read(&[]), 0);
    for page in pages() {
        for words in code(&page).iter().flat_map(|code| uses(code, "handback")) {
            // What is left open stands for anything.
            if words.first().is_none_or(|word| word.starts_with(['…', '<', '.'])) {
                continue;
            }
            looked_at += 1;
            let complaint = known.complain(&words);
            assert!(complaint.is_none(), "{}: `handback {}`: {}", page.path, words.join(" "), complaint.unwrap());
        }
    }
    assert!(looked_at > 60, "{looked_at} commands");
}

#[test]
fn targets_of_make_that_the_documentation_names_are_there() {
    let makefile = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| !line.starts_with(['\t', '#', '.']))
        .filter_map(|line| line.split_once(':'))
        .filter(|(_, rest)| !rest.starts_with('='))
        .flat_map(|(names, _)| names.split(' '))
        .collect();
    let mut looked_at = 0;
    for page in pages() {
        for words in code(&page).iter().flat_map(|code| uses(code, "make")) {
            for word in words.iter().filter(|word| !word.contains(['=', '…']) && !word.starts_with('-')) {
                looked_at += 1;
                assert!(targets.contains(word.as_str()), "{}: `make {word}`: there is no such target", page.path);
            }
        }
    }
    assert!(looked_at > 20, "{looked_at} targets");
}

#[test]
fn what_is_not_there_is_noticed() {
    let known = Known::read(&[]);
    let complaint = |code: &str| uses(code, "handback").iter().find_map(|words| known.complain(words));
    for wrong in [
        "handback servé\n",
        "X=1 handback --no-such-flag\n",
        "handback --listen 127.0.0.1:1 nonsense\n",
        "echo a | handback sessions show ses_1 --folow\n",
        "export T=\"$(handback token --client a --tll 1)\"\n",
        "handback attach --client a \\\n  --tol b -- c --any\n",
    ] {
        assert!(complaint(wrong).is_some(), "{wrong}");
    }
    for right in [
        "handback --listen 127.0.0.1:1 --data handback\n",
        "handback attach --client a --tool=b -- c --any # handback nonsense\n",
        "cat handback nonsense\n",
        "handback chat --attach 'weekday=date | handback' 2> out.txt && handback sessions show ses_1\n",
    ] {
        assert_eq!(complaint(right), None, "{right}");
    }
}
