//! What it says: about results, about what is missing, about itself.

use handback_core::sessions::ModelRequest;
use handback_core::store::{Attachment, ToolPart};
use handback_core::tools::ModelTool;

use super::Turn;
use super::line::MOST_CALLS;

/// Bytes of one result that are quoted; a longer one is cut, with a note.
const MOST_QUOTED: usize = 4 * 1024;
/// Bytes of all results together: when there are many, each gets its share,
const MOST_QUOTED_TOGETHER: usize = 64 * 1024;
/// but never less than this.
const LEAST_QUOTED: usize = 256;
/// Tools and files that are named; of others it is said how many there are.
const MOST_NAMED: usize = 20;
/// Characters of a name that somebody else chose; the rest is dots.
const LONGEST_NAME: usize = 100;

/// What came of the calls, one paragraph each, in order.
pub(super) fn from_results(turn: &Turn<'_>, request: &ModelRequest<'_>) -> String {
    let share = (MOST_QUOTED_TOGETHER / turn.results().count().max(1)).clamp(LEAST_QUOTED, MOST_QUOTED);
    let most = share.min(request.most_output);
    let results = turn.results().map(|part| result(part, request.tools, most));
    paragraphs(results.chain(about_files(turn)))
}

fn result(part: &ToolPart, tools: &[ModelTool<'_>], most: usize) -> String {
    let name = tools.iter().find(|tool| tool.alias == part.alias).map_or(part.alias.as_str(), |tool| tool.name);
    let (text, failed) = part.result_for_model(most);
    let mut said = match (failed, text.trim().is_empty()) {
        (true, true) => format!("The tool `{name}` failed and did not say why."),
        (true, false) => format!("The tool `{name}` failed: {text}"),
        (false, true) => format!("The tool `{name}` is done; it gave no output."),
        (false, false) if text.contains('\n') => format!("The tool `{name}` answered:\n{text}"),
        (false, false) => format!("The tool `{name}` answered: {text}"),
    };
    if !part.attachments().is_empty() {
        said.push_str(&format!("\nIt came with {}.", files(part.attachments().iter())));
    }
    said
}

/// The tool that it would call, and what it would have to know.
pub(super) fn missing(tool: ModelTool<'_>, parameters: &[String], turn: &Turn<'_>) -> String {
    let name = tool.name;
    let ask = format!(
        "I would call `{name}`, but I do not see in your message what to use for {}. Tell me, or make the call \
         yourself with a line like `call {name} {{…}}`.",
        parameters.join(", ")
    );
    paragraphs([ask].into_iter().chain(about_files(turn)))
}

/// What it is, which tools there are, and how to go on.
pub(super) fn about_itself(tools: &[ModelTool<'_>], turn: &Turn<'_>) -> String {
    let itself = "I am the scripted demo model. I need no key, and I do not think: I look for a tool that fits your \
                  words, and found none.";
    let tools = match tools.first() {
        None => "There are no tools here yet: register one, and ask again.".to_owned(),
        Some(first) => format!(
            "Tools here: {}. A line like `call {} {{…}}` calls one with exactly that JSON.",
            named(tools.iter().map(|tool| format!("`{}`", tool.name))),
            first.name
        ),
    };
    let real = "For a real model set `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, or name one under `providers` in the \
                configuration.";
    paragraphs([itself.to_owned(), tools, real.to_owned()].into_iter().chain(about_files(turn)))
}

/// That there were more lines than calls are made; nothing if there were not.
pub(super) fn left_out(count: usize) -> String {
    match count {
        0 => String::new(),
        count => format!("I make {MOST_CALLS} calls at a time; {count} more are left out."),
    }
}

/// What it has to say about files of the user.
fn about_files(turn: &Turn<'_>) -> Option<String> {
    turn.files().next()?;
    Some(format!("I can not look into files; with your message came {}.", files(turn.files())))
}

fn files<'a>(files: impl Iterator<Item = &'a Attachment>) -> String {
    named(files.map(|file| {
        let name = file.filename.as_deref().filter(|name| !name.is_empty()).unwrap_or("a file");
        format!("{} ({})", shorten(name), shorten(&file.mime))
    }))
}

/// Names, as many as are named, and how many others there are.
fn named(names: impl Iterator<Item = String>) -> String {
    let mut names = names.fuse();
    let mut list: Vec<String> = names.by_ref().take(MOST_NAMED).collect();
    let others = names.count();
    if others > 0 {
        list.push(format!("and {others} more"));
    }
    list.join(", ")
}

/// A name that is not too long, or its beginning with dots.
pub(super) fn shorten(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn paragraphs(paragraphs: impl Iterator<Item = String>) -> String {
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
