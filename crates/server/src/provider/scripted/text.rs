//! A text as what it is made of: words, quotes, numbers, addresses.

use serde_json::Number;

use super::word;

/// Pieces that are looked at; what comes after them is not.
const MOST_PIECES: usize = 512;

/// A text and its pieces.
#[derive(Debug)]
pub(super) struct Text<'a> {
    pub(super) source: &'a str,
    pub(super) pieces: Vec<Piece<'a>>,
}

/// A piece of a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Piece<'a> {
    /// The piece without quotes and punctuation around it.
    pub(super) text: &'a str,
    pub(super) kind: Kind,
    /// Where it begins and ends in the source, with its quotes.
    pub(super) start: usize,
    pub(super) end: usize,
    /// What it has in common with words of the same root, for words; see [`word::stem`].
    pub(super) stem: String,
    /// Whether it is a word that says nothing about anything.
    pub(super) is_silent: bool,
    /// Whether it is a word that only joins what is around it.
    pub(super) joins: bool,
    /// The punctuation after it: one of `, ; : = . ! ?` or a line break.
    pub(super) mark: Option<char>,
}

/// What a piece is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Word,
    /// Something in quotes.
    Quoted,
    /// An address of the web, with or without its scheme.
    Url,
    Email,
    /// A path or a file's name.
    Path,
    /// A day, perhaps with a time: `2026-01-31`, `2026-01-31T12:00:00Z`.
    Date,
    Number(Number),
}

impl Piece<'_> {
    pub(super) fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }

    /// Whether it is a word that is written like a name.
    pub(super) fn is_capital(&self) -> bool {
        self.is_word() && self.text.starts_with(char::is_uppercase) && !self.is_silent
    }

    /// Whether a sentence ends after it.
    pub(super) fn ends_sentence(&self) -> bool {
        matches!(self.mark, Some('.' | '!' | '?' | '\n'))
    }
}

impl<'a> Text<'a> {
    /// Takes a text apart.
    pub(super) fn read(source: &'a str) -> Self {
        let mut reader = Reader { source, at: 0, unclosed: [false; QUOTES.len()], pieces: Vec::new() };
        while reader.at < source.len() && reader.pieces.len() < MOST_PIECES {
            reader.step();
        }
        Self { source, pieces: reader.pieces }
    }
}

const QUOTES: [(char, char); 7] =
    [('"', '"'), ('“', '”'), ('„', '“'), ('«', '»'), ('‘', '’'), ('\'', '\''), ('`', '`')];
/// What stands around words and belongs to none.
const AROUND: &[char] =
    &['(', ')', '[', ']', '{', '}', '<', '>', '"', '“', '”', '„', '«', '»', '‘', '\'', '`', '*', '|'];
/// Punctuation after a word.
const MARKS: &[char] = &[',', ';', ':', '=', '.', '!', '?', '…'];

struct Reader<'a> {
    source: &'a str,
    at: usize,
    /// Quotes of which it is known that none is closed from here on: nobody looks for them twice.
    unclosed: [bool; QUOTES.len()],
    pieces: Vec<Piece<'a>>,
}

impl<'a> Reader<'a> {
    fn step(&mut self) {
        let rest = &self.source[self.at..];
        let Some(first) = rest.chars().next() else { return };
        if first.is_whitespace() {
            self.mark(if first == '\n' { Some('\n') } else { None });
            self.at += first.len_utf8();
        } else if !self.quote(first) {
            // A quote within a chunk begins something new (`title="x"`); an apostrophe does not.
            let is_end = |at: usize, c: char| c.is_whitespace() || (at > 0 && "\"“„«`".contains(c));
            let end = rest.char_indices().find(|(at, character)| is_end(*at, *character));
            self.chunk(&rest[..end.map_or(rest.len(), |(at, _)| at)]);
        }
    }

    /// Remembers punctuation after the last piece; the first one counts.
    fn mark(&mut self, mark: Option<char>) {
        if let (Some(piece), Some(mark)) = (self.pieces.last_mut(), mark) {
            piece.mark.get_or_insert(mark);
        }
    }

    fn push(&mut self, kind: Kind, text: &'a str, start: usize, end: usize) {
        if self.pieces.len() == MOST_PIECES {
            return;
        }
        let is_word = kind == Kind::Word;
        self.pieces.push(Piece {
            text,
            start,
            end,
            stem: if is_word { word::stem(text) } else { String::new() },
            is_silent: is_word && word::is_silent(text),
            joins: is_word && word::joins(text),
            mark: None,
            kind,
        });
    }

    /// Reads something in quotes, if it begins here.
    fn quote(&mut self, first: char) -> bool {
        if self.source[..self.at].ends_with(char::is_alphanumeric) {
            return false;
        }
        for (index, (open, close)) in QUOTES.into_iter().enumerate() {
            if first != open || self.unclosed[index] {
                continue;
            }
            let inside = self.at + open.len_utf8();
            // An apostrophe within a word closes nothing.
            let closes = |at: usize| !self.source[at + close.len_utf8()..].starts_with(char::is_alphanumeric);
            let mut ends = self.source[inside..].match_indices(close).map(|(at, _)| inside + at);
            let Some(end) = ends.find(|end| closes(*end)) else {
                self.unclosed[index] = true;
                continue;
            };
            let (start, after) = (self.at, end + close.len_utf8());
            if end > inside {
                self.push(Kind::Quoted, &self.source[inside..end], start, after);
            }
            self.at = after;
            return true;
        }
        false
    }

    /// Reads what stands between white space: one address, or words and numbers.
    fn chunk(&mut self, chunk: &'a str) {
        let start = self.at;
        self.at += chunk.len();
        let open = chunk.trim_start_matches(AROUND);
        let from = start + (chunk.len() - open.len());
        let mut bare = open.trim_end_matches(|character| AROUND.contains(&character) || MARKS.contains(&character));
        // Some addresses end with a parenthesis of their own.
        if bare.matches('(').count() > bare.matches(')').count() && open[bare.len()..].starts_with(')') {
            bare = &open[..=bare.len()];
        }
        if let Some(kind) = address(bare) {
            self.push(kind, bare, from, from + bare.len());
            self.mark(chunk[from - start + bare.len()..].chars().find(|character| MARKS.contains(character)));
            return;
        }
        let mut begin = 0;
        for (at, character) in chunk.char_indices() {
            if (AROUND.contains(&character) && !is_within(chunk, at)) || splits(chunk, at, character) {
                self.part(&chunk[begin..at], start + begin);
                begin = at + character.len_utf8();
                self.mark(MARKS.contains(&character).then_some(character));
            }
        }
        self.part(&chunk[begin..], start + begin);
    }

    /// Reads a word or numbers.
    fn part(&mut self, part: &'a str, start: usize) {
        let bare = part.trim_end_matches(MARKS);
        if self.numbers(bare, start) {
        } else if bare.contains(char::is_alphanumeric) {
            self.push(Kind::Word, bare, start, start + bare.len());
        }
        self.mark(part[bare.len()..].chars().next());
    }

    /// Reads numbers: `7`, `-1.5`, `1,000`, `20%`, `10px`, `800x600`, `2+3`. Times and versions are words.
    fn numbers(&mut self, part: &'a str, start: usize) -> bool {
        let body = part.trim_start_matches(['$', '€', '£', '#']);
        let mut at = part.len() - body.len();
        let mut found = Vec::new();
        while at < part.len() {
            let rest = &part[at..];
            let negative = found.is_empty() && rest.starts_with('-');
            let digits = &rest[usize::from(negative)..];
            let length = number_length(digits);
            if length == 0 {
                break;
            }
            let end = at + usize::from(negative) + length;
            let Some(number) = number(&part[at..end]) else { return false };
            found.push((number, at, end));
            let joint = part[end..].chars().next();
            at = end;
            match joint {
                Some(joint) if "x×+*-/–".contains(joint) && number_length(&part[end + joint.len_utf8()..]) > 0 => {
                    at += joint.len_utf8();
                }
                _ => break,
            }
        }
        let unit = &part[at..];
        let is_unit = unit.chars().count() <= 3 && !unit.contains(|c: char| !c.is_alphabetic() && !"%°".contains(c));
        if found.is_empty() || !is_unit {
            return word_number(part).is_some_and(|number| {
                self.push(Kind::Number(number.into()), part, start, start + part.len());
                true
            });
        }
        for (number, from, to) in found {
            self.push(Kind::Number(number), &part[from..to], start + from, start + to);
        }
        true
    }
}

/// Whether a character belongs to the word around it: an apostrophe.
fn is_within(chunk: &str, at: usize) -> bool {
    chunk[at..].starts_with('\'')
        && chunk[..at].ends_with(char::is_alphanumeric)
        && chunk[at + 1..].starts_with(char::is_alphanumeric)
}

/// Whether a mark within a chunk stands between two words or numbers. It does not in `1,000`.
fn splits(chunk: &str, at: usize, character: char) -> bool {
    let after = &chunk[at + character.len_utf8()..];
    match character {
        ',' => !(chunk[..at].ends_with(|c: char| c.is_ascii_digit()) && is_group(after)),
        ';' | '=' => true,
        // A time has one in it.
        ':' => !after.starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    }
}

/// Whether three digits begin here, and not more.
fn is_group(text: &str) -> bool {
    text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len() == 3
}

/// The length of the digits at the beginning, with groups and a fraction; 0 if it is no number but a version or a time.
fn number_length(text: &str) -> usize {
    let digits = |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mut length = digits(text);
    while length > 0 && text[length..].starts_with(',') && is_group(&text[length + 1..]) {
        length += 4;
    }
    if length > 0 && text[length..].starts_with('.') {
        let fraction = digits(&text[length + 1..]);
        length += if fraction > 0 { 1 + fraction } else { 0 };
    }
    if text[length..].starts_with(['.', ':']) { 0 } else { length }
}

fn number(text: &str) -> Option<Number> {
    let text = text.replace(',', "");
    // JSON has no leading zeros.
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let digits = digits.trim_start_matches('0');
    let zero = if digits.starts_with(|c: char| c.is_ascii_digit()) { "" } else { "0" };
    format!("{sign}{zero}{digits}").parse().ok()
}

fn word_number(text: &str) -> Option<u8> {
    const WORDS: [&str; 13] =
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    let number = WORDS.iter().position(|word| word.eq_ignore_ascii_case(text))?;
    u8::try_from(number).ok()
}

/// Whether a chunk is an address, and which.
pub(super) fn address(text: &str) -> Option<Kind> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    if let Some((scheme, rest)) = text.split_once("://") {
        let is_scheme = !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+.-".contains(c));
        return (is_scheme && !rest.is_empty()).then_some(Kind::Url);
    }
    if let Some((name, host)) = text.split_once('@') {
        let fits = !name.is_empty() && host.contains('.') && host.chars().all(is_name);
        return fits.then_some(Kind::Email);
    }
    if is_date(text) {
        return Some(Kind::Date);
    }
    let host = text.split('/').next().unwrap_or_default();
    let (label, domain) = host.rsplit_once('.').unwrap_or_default();
    let is_web = text.starts_with("www.") || TOP_LEVEL_DOMAINS.contains(&domain.to_ascii_lowercase().as_str());
    if is_web && !label.is_empty() && host.chars().all(is_name) {
        return Some(Kind::Url);
    }
    let rooted = ["/", "./", "../", "~/"].iter().any(|root| text.len() > root.len() && text.starts_with(root));
    (rooted || text.contains(":\\") || ends_like_a_file(text)).then_some(Kind::Path)
}

/// The few that people write without a scheme; other hosts need one, so that `notes.md` is a file.
const TOP_LEVEL_DOMAINS: &[&str] = &["com", "org", "net", "io", "dev", "app", "edu", "gov"];

/// Whether a name has an ending that begins with a letter: `notes.txt`, and not `3.5mm`.
fn ends_like_a_file(text: &str) -> bool {
    let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !stem.is_empty()
        && stem.chars().all(is_name)
        && (2..=5).contains(&ending.len())
        && ending.chars().all(|c| c.is_ascii_alphanumeric())
        && ending.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// Whether a text is a day of the calendar, perhaps with a time.
fn is_date(text: &str) -> bool {
    let (day, time) = text.split_at_checked("2026-01-31".len()).unwrap_or_default();
    let mut parts = day.split('-');
    let mut number = |length: usize| {
        let part = parts.next().filter(|part| part.len() == length && part.bytes().all(|b| b.is_ascii_digit()));
        part.and_then(|part| part.parse::<u16>().ok())
    };
    let day_fits = number(4).is_some()
        && number(2).is_some_and(|month| (1..=12).contains(&month))
        && number(2).is_some_and(|day| (1..=31).contains(&day));
    day_fits && (time.is_empty() || time.starts_with(['T', 't']))
}
