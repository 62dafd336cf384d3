//! Which words are the same, and which of them say little. Made for English, and content with names in any language.
//! The lists are sorted.

/// Words that say nothing about anything.
const SILENT: &[&str] = &[
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "by", "call", "can", "client", "could",
    "did", "do", "does", "dont", "for", "from", "had", "has", "have", "help", "her", "here", "him", "how", "i", "if",
    "in", "into", "is", "it", "its", "let", "like", "me", "my", "need", "no", "not", "now", "of", "ok", "one", "or",
    "our", "please", "should", "so", "some", "than", "that", "the", "their", "them", "then", "there", "these", "they",
    "this", "those", "to", "tool", "tools", "up", "us", "use", "using", "want", "was", "we", "were", "what", "when",
    "where", "which", "who", "why", "will", "with", "would", "you", "your",
];

/// Words that people say to be polite: they are not about tools either, but they may well be a value.
const POLITE: &[&str] = &["bye", "hello", "hey", "hi", "thank", "thanks"];

/// Words that many tools have in their names: alone they say little. As stems.
const WEAK: &[&str] = &[
    "creat", "display", "fetch", "find", "get", "giv", "handl", "list", "mak", "off", "on", "perform", "put", "return",
    "run", "set", "show", "tak", "tel", "updat",
];

/// Words that only join what is around them.
const JOINTS: &[&str] = &[
    "a", "about", "an", "and", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "me", "my", "named",
    "of", "on", "please", "saying", "so", "that", "the", "to", "up", "us", "using", "with", "your",
];

/// Whether a word says nothing about anything.
pub(super) fn is_silent(word: &str) -> bool {
    has(SILENT, &plain(word))
}

/// Whether a stem is in the names of many tools.
pub(super) fn is_weak(stem: &str) -> bool {
    has(WEAK, stem)
}

/// Whether a word only joins what is around it.
pub(super) fn joins(word: &str) -> bool {
    has(JOINTS, &plain(word))
}

fn has(sorted: &[&str], word: &str) -> bool {
    sorted.binary_search(&word).is_ok()
}

/// The words of a name or a text: split where there is neither letter nor digit, and within `camelCase`.
pub(super) fn split(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|character: char| !character.is_alphanumeric() && !is_apostrophe(character));
    parts.flat_map(split_case).filter(|word| word.contains(char::is_alphanumeric))
}

/// Splits before a capital that follows a small letter (`openUrl`) or begins a word after capitals (`HTTPServer`).
fn split_case(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut characters = rest.char_indices().peekable();
        let mut before = (false, false);
        let mut end = rest.len();
        while let Some((at, character)) = characters.next() {
            let next_is_small = characters.peek().is_some_and(|(_, next)| next.is_lowercase());
            if character.is_uppercase() && (before.0 || (before.1 && next_is_small)) {
                end = at;
                break;
            }
            before = (character.is_lowercase(), character.is_uppercase());
        }
        let (word, after) = rest.split_at(end);
        rest = after;
        Some(word)
    })
}

/// The stems of the words of a name or a text that may say which tool is meant.
pub(super) fn stems(text: &str) -> impl Iterator<Item = String> {
    split(text).map(plain).filter(|word| !has(SILENT, word) && !has(POLITE, word)).map(root)
}

/// What words of one root have in common: `files` and `file`, `opening`, `opened` and `open`, `taking` and `take`.
pub(super) fn stem(word: &str) -> String {
    root(plain(word))
}

fn root(mut stem: String) -> String {
    let drop = |stem: &mut String, ending: &str, least: usize| {
        let fits = stem.ends_with(ending) && stem.len() >= ending.len() + least;
        if fits {
            stem.truncate(stem.len() - ending.len());
        }
        fits
    };
    if drop(&mut stem, "ies", 2) {
        stem.push('y');
    } else if !stem.ends_with("ss") && !stem.ends_with("us") && !stem.ends_with("is") {
        let hisses = ["ches", "shes", "sses", "xes"].iter().any(|ending| stem.ends_with(ending));
        drop(&mut stem, if hisses { "es" } else { "s" }, 2);
    }
    _ = drop(&mut stem, "ing", 3) || drop(&mut stem, "ed", 3) || drop(&mut stem, "ly", 4);
    drop(&mut stem, "e", 2);
    let mut last = stem.chars().rev();
    if let (Some(last), Some(before)) = (last.next(), last.next())
        && last == before
        && last.is_alphabetic()
    {
        stem.pop();
    }
    stem
}

/// A word in small letters, without what an apostrophe hangs on to it (`what's`); `don't` stays whole.
fn plain(word: &str) -> String {
    let word = word.trim_matches(is_apostrophe);
    let end = word.find(is_apostrophe).filter(|end| !word[*end..].to_lowercase().ends_with('t'));
    let word = &word[..end.unwrap_or(word.len())];
    word.chars().filter(|character| !is_apostrophe(*character)).flat_map(char::to_lowercase).collect()
}

fn is_apostrophe(character: char) -> bool {
    matches!(character, '\'' | '’')
}

#[cfg(test)]
mod tests;
