//! Splits a text into pieces, and compares and filters its words. It is made for English.

use serde_json::Number;

/// How many pieces of a text are read; the rest is ignored.
const MOST_PIECES: usize = 512;
/// Bytes of a description that are read.
const MOST_DESCRIPTION: usize = 512;
/// Opening and closing quotes.
const QUOTES: [(char, char); 6] = [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('\'', '\''), ('`', '`')];
/// Punctuation that is stripped from both ends of a word.
const AROUND: &str = "()[]{}<>\"“”„«»`*|$€£#%";
/// Numbers as words; the index is the number.
const NUMBERS: [&str; 13] =
    ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
/// Words that only join the words around them.
pub(super) const JOINTS: &[&str] = &[
    "a", "about", "an", "and", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "me", "my", "named",
    "of", "please", "saying", "so", "that", "the", "to", "up", "us", "using", "with", "your",
];
/// Other words that say nothing about tools.
const SILENT: &[&str] = &[
    "all", "am", "any", "are", "bye", "call", "can", "client", "could", "did", "do", "does", "don", "had", "has",
    "have", "hello", "help", "her", "here", "hey", "hi", "him", "how", "i", "if", "its", "let", "like", "need", "no",
    "not", "now", "ok", "or", "our", "s", "should", "some", "t", "than", "thank", "thanks", "their", "them", "then",
    "there", "these", "they", "this", "those", "today", "tomorrow", "tonight", "tool", "tools", "use", "want", "was",
    "we", "were", "what", "when", "where", "which", "who", "why", "will", "would", "you",
];
/// Endings in which two forms of a word can differ.
const ENDINGS: &[&str] = &["", "s", "es", "e", "ed", "ing", "ly", "y", "ies"];

/// A piece of a text: a word, an address, a number, a quote, or a single sign.
#[derive(Debug)]
pub(super) struct Piece<'a> {
    /// The piece without the quotes around it.
    pub(super) text: &'a str,
    pub(super) is_quoted: bool,
    /// The start and the end in the text, including quotes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// The word in lower case; empty if the piece is not a word.
    pub(super) word: String,
}

impl Piece<'_> {
    /// Whether the piece only joins the pieces around it.
    pub(super) fn joins(&self) -> bool {
        JOINTS.contains(&self.word.as_str()) || matches!(self.text, "," | ";" | ":" | "=" | "." | "!" | "?" | "\n")
    }
}

/// Whether a lower-case word says nothing about tools.
pub(super) fn is_silent(word: &str) -> bool {
    JOINTS.contains(&word) || SILENT.contains(&word)
}

/// Splits a text into pieces.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while pieces.len() < MOST_PIECES && !text[start..].trim_start().is_empty() {
        let rest = text[start..].trim_start_matches(|c: char| c.is_whitespace() && c != '\n');
        start = text.len() - rest.len();
        // An apostrophe within a word does not open a quote.
        let quoted = if text[..start].ends_with(char::is_alphanumeric) { None } else { quoted(rest) };
        let (piece, length) = quoted.unwrap_or_else(|| plain(rest));
        let is_other = |c: char| !c.is_alphanumeric() && !"_-'’".contains(c);
        let is_word = quoted.is_none() && piece.starts_with(char::is_alphanumeric) && !piece.contains(is_other);
        let word = piece.split(['\'', '’']).next().filter(|_| is_word && as_number(piece).is_none());
        let word = word.unwrap_or_default().to_lowercase();
        pieces.push(Piece { text: piece, is_quoted: quoted.is_some(), start, end: start + length, word });
        start += length;
    }
    pieces
}

/// The quoted text at the beginning of a text, and its length with quotes. An apostrophe in a word does not close it.
fn quoted(text: &str) -> Option<(&str, usize)> {
    let (open, close) = QUOTES.into_iter().find(|(open, _)| text.starts_with(*open))?;
    let inside = &text[open.len_utf8()..];
    let is_end = |end: usize| !inside[end + close.len_utf8()..].starts_with(char::is_alphanumeric);
    let (end, _) = inside.match_indices(close).find(|(end, _)| is_end(*end))?;
    Some((&inside[..end], open.len_utf8() + end + close.len_utf8()))
}

/// The word, address, number or sign at the beginning of a text, and its length.
fn plain(text: &str) -> (&str, usize) {
    let chunk = text.split(char::is_whitespace).next().unwrap_or_default();
    let is_url = chunk.contains("://");
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let ends = |at: usize, c: char| match c {
        _ if is_url => "\"“„«`<>".contains(c),
        // `1,000` and `10:30` are not split.
        ',' => digits(&chunk[at + 1..]) != 3,
        ':' => digits(&chunk[at + 1..]) == 0,
        _ => AROUND.contains(c) || ";=!?".contains(c),
    };
    let end = chunk.char_indices().find(|(at, c)| ends(*at, *c)).map_or(chunk.len(), |(at, _)| at);
    let is_after = |c: char| ".,:;!?'".contains(c) || (c == ')' && !chunk[..end].contains('('));
    let piece = chunk[..end].trim_end_matches(is_after);
    let width = digits(piece);
    let sign = &text[..text.ceil_char_boundary(1)];
    match piece[width..].strip_prefix('x') {
        // `800x600` is two numbers.
        Some(height) if width > 0 && digits(height) > 0 => (&piece[..width], width + 1),
        _ if piece.contains(char::is_alphanumeric) => (piece, piece.len()),
        _ => (sign, sign.len()),
    }
}

/// Parses a piece as a number.
pub(super) fn as_number(text: &str) -> Option<Number> {
    let word = NUMBERS.iter().position(|word| word.eq_ignore_ascii_case(text)).map(Number::from);
    let number = word.or_else(|| text.replace(',', "").parse().ok())?;
    let whole = number.as_f64().filter(|value| number.is_f64() && value.fract() == 0.0 && value.abs() < 1e15);
    Some(whole.map_or(number, |value| (value as i64).into()))
}

/// The lower-case words of a name or text, split at characters that are neither letter nor digit, and in `camelCase`.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut spaced = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_uppercase() && spaced.ends_with(char::is_lowercase) {
            spaced.push(' ');
        }
        spaced.push(character);
    }
    let words = spaced.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Whether two words are forms of the same word: `files` and `file`, `opening` and `open`, `taking` and `take`.
pub(super) fn is_same(one: &str, other: &str) -> bool {
    let common = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    let is_ending = |word: &str| word.get(common..).is_some_and(|ending| ENDINGS.contains(&ending));
    one == other || (common > 1 && is_ending(one) && is_ending(other))
}

/// The words of a name or description that can tell tools apart.
pub(super) fn telling_words(text: &str) -> Vec<String> {
    words(&text[..text.floor_char_boundary(MOST_DESCRIPTION)]).into_iter().filter(|word| !is_silent(word)).collect()
}
