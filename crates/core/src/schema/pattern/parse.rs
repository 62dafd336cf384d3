//! Parses a pattern into a tree. Legacy syntax that ECMA-262 allows is accepted where it is unambiguous.

use std::collections::HashMap;

use super::super::bounds::Bounds;
use super::set::{Ranges, Set};

/// The tree of a pattern.
#[derive(Debug)]
pub(super) enum Tree {
    Set(Set),
    Start,
    End,
    WordBoundary { negated: bool },
    Sequence(Vec<Tree>),
    Alternatives(Vec<Tree>),
    Group { number: usize, body: Box<Tree> },
    Repeat { body: Box<Tree>, least: u32, most: Option<u32> },
    Look { body: Box<Tree>, ahead: bool, negated: bool },
    Same(Reference),
}

/// A back-reference.
#[derive(Debug)]
pub(super) enum Reference {
    Number(usize),
    Name(String),
}

/// A parsed pattern.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) tree: Tree,
    /// The number of groups.
    pub(super) groups: usize,
    pub(super) names: HashMap<String, usize>,
    pub(super) refers_back: bool,
}

pub(super) fn parse(source: &str, bounds: &Bounds) -> Result<Parsed, String> {
    let characters: Vec<char> = source.chars().collect();
    let mut parser = Parser {
        characters: &characters,
        at: 0,
        open: 0,
        groups: 0,
        names: HashMap::new(),
        refers_back: false,
        ranges: 0,
        bounds,
    };
    let tree = parser.alternatives()?;
    if parser.peek().is_some() {
        return Err("a `)` has no `(`".to_owned());
    }
    Ok(Parsed { tree, groups: parser.groups, names: parser.names, refers_back: parser.refers_back })
}

struct Parser<'a> {
    characters: &'a [char],
    at: usize,
    /// The number of open groups.
    open: usize,
    groups: usize,
    names: HashMap<String, usize>,
    refers_back: bool,
    /// The number of ranges so far. They are bounded while they are made.
    ranges: usize,
    bounds: &'a Bounds,
}

/// A member of a character class.
enum Member {
    One(char),
    Many(Ranges),
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.characters.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += 1;
        Some(next)
    }

    /// Consumes a text if it comes next.
    fn takes(&mut self, text: &str) -> bool {
        let length = text.chars().count();
        let comes = self.characters[self.at..].iter().copied().take(length).eq(text.chars());
        if comes {
            self.at += length;
        }
        comes
    }

    fn alternatives(&mut self) -> Result<Tree, String> {
        let mut alternatives = vec![self.sequence()?];
        while self.takes("|") {
            alternatives.push(self.sequence()?);
        }
        match alternatives.len() {
            1 => Ok(alternatives.remove(0)),
            _ => Ok(Tree::Alternatives(alternatives)),
        }
    }

    fn sequence(&mut self) -> Result<Tree, String> {
        let mut sequence = Vec::new();
        while !matches!(self.peek(), None | Some('|' | ')')) {
            let tree = self.atom()?;
            sequence.push(self.repeated(tree)?);
        }
        Ok(Tree::Sequence(sequence))
    }

    fn atom(&mut self) -> Result<Tree, String> {
        match self.next() {
            Some('^') => Ok(Tree::Start),
            Some('$') => Ok(Tree::End),
            Some('(') => self.group(),
            Some('[') => self.class(),
            Some('.') => self.set(Ranges::line_ends().negated()),
            Some('\\') => self.escape(),
            Some(character @ ('*' | '+' | '?')) => Err(format!("there is nothing to repeat before `{character}`")),
            Some('{') if self.count().is_some() => Err("there is nothing to repeat before `{`".to_owned()),
            Some(character) => self.set(Ranges::one(character)),
            None => Ok(Tree::Sequence(Vec::new())),
        }
    }

    fn set(&mut self, ranges: Ranges) -> Result<Tree, String> {
        self.ranges += ranges.len();
        if self.ranges > self.bounds.pattern {
            return Err(too_large());
        }
        Ok(Tree::Set(ranges.into_set()))
    }

    fn group(&mut self) -> Result<Tree, String> {
        self.open += 1;
        if self.groups == self.bounds.pattern {
            return Err(too_large());
        }
        if self.open > self.bounds.groups {
            return Err(format!("its groups are nested more than {} deep", self.bounds.groups));
        }
        let mut number = None;
        let mut look = None;
        if self.takes("?") {
            let kinds = [("=", true, false), ("!", true, true), ("<=", false, false), ("<!", false, true)];
            if let Some((_, ahead, negated)) = kinds.into_iter().find(|(mark, ..)| self.takes(mark)) {
                look = Some((ahead, negated));
            } else if self.takes("<") {
                let name = self.name()?;
                self.groups += 1;
                number = Some(self.groups);
                if self.names.insert(name.clone(), self.groups).is_some() {
                    return Err(format!("two groups have the name {name:?}"));
                }
            } else if !self.takes(":") {
                let kind: String = self.characters[self.at..].iter().take(1).collect();
                return Err(format!("groups that begin with `(?{kind}` are not part of ECMA-262"));
            }
        } else {
            self.groups += 1;
            number = Some(self.groups);
        }
        let body = self.alternatives()?;
        if !self.takes(")") {
            return Err("a `(` has no `)`".to_owned());
        }
        self.open -= 1;
        Ok(match (number, look) {
            (Some(number), _) => Tree::Group { number, body: Box::new(body) },
            (None, Some((ahead, negated))) => Tree::Look { body: Box::new(body), ahead, negated },
            (None, None) => body,
        })
    }

    /// Parses the name of a group, up to its `>`.
    fn name(&mut self) -> Result<String, String> {
        let rest = &self.characters[self.at..];
        let length = rest.iter().position(|character| *character == '>').unwrap_or(0);
        let name: String = rest[..length].iter().collect();
        let is_name = |character: char| character.is_alphanumeric() || character == '_' || character == '$';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("the name of a group is not one".to_owned());
        }
        self.at += length + 1;
        Ok(name)
    }

    /// Parses a quantifier, if one follows. Greedy and lazy ones are the same here, since they match the same texts.
    fn repeated(&mut self, tree: Tree) -> Result<Tree, String> {
        let before = self.at;
        let count = match self.next() {
            Some('*') => Some((0, None)),
            Some('+') => Some((1, None)),
            Some('?') => Some((0, Some(1))),
            Some('{') => self.count(),
            _ => None,
        };
        let Some((least, most)) = count else {
            self.at = before;
            return Ok(tree);
        };
        self.takes("?");
        if most.is_some_and(|most| most < least) {
            return Err("the numbers of a repetition are out of order".to_owned());
        }
        if matches!(tree, Tree::Start | Tree::End | Tree::WordBoundary { .. } | Tree::Look { ahead: false, .. }) {
            return Err("an assertion is repeated".to_owned());
        }
        Ok(Tree::Repeat { body: Box::new(tree), least, most })
    }

    /// Parses the rest of `{2}`, `{2,}` or `{2,3}`; consumes nothing otherwise.
    fn count(&mut self) -> Option<(u32, Option<u32>)> {
        // Enough for two useful numbers and what is between them.
        const LONGEST: usize = 24;
        let rest = &self.characters[self.at..];
        let length = rest.iter().take(LONGEST).position(|character| *character == '}')?;
        let text: String = rest[..length].iter().collect();
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // A number that is too large for its type is too large for every bound.
        let number = |text: &str| text.parse().unwrap_or(u32::MAX);
        let count = match text.split_once(',') {
            None if is_number(&text) => (number(&text), Some(number(&text))),
            Some((least, "")) if is_number(least) => (number(least), None),
            Some((least, most)) if is_number(least) && is_number(most) => (number(least), Some(number(most))),
            _ => return None,
        };
        self.at += length + 1;
        Some(count)
    }

    /// Parses what follows a backslash outside of a class.
    fn escape(&mut self) -> Result<Tree, String> {
        match self.peek() {
            Some('b') => {
                self.at += 1;
                Ok(Tree::WordBoundary { negated: false })
            }
            Some('B') => {
                self.at += 1;
                Ok(Tree::WordBoundary { negated: true })
            }
            Some('1'..='9') => {
                let mut number = 0usize;
                while let Some(digit) = self.peek().and_then(|character| character.to_digit(10)) {
                    self.at += 1;
                    number = number.saturating_mul(10).saturating_add(digit as usize);
                }
                self.refers_back = true;
                Ok(Tree::Same(Reference::Number(number)))
            }
            Some('k') => {
                self.at += 1;
                if !self.takes("<") {
                    return Err("`\\k` needs the name of a group".to_owned());
                }
                self.refers_back = true;
                Ok(Tree::Same(Reference::Name(self.name()?)))
            }
            _ => match self.member_escape()? {
                Member::One(character) => self.set(Ranges::one(character)),
                Member::Many(ranges) => self.set(ranges),
            },
        }
    }

    /// Parses what follows a backslash, inside or outside of a class.
    fn member_escape(&mut self) -> Result<Member, String> {
        let Some(character) = self.next() else { return Err("it ends with a `\\`".to_owned()) };
        let one = match character {
            'd' => return Ok(Member::Many(Ranges::digits())),
            'D' => return Ok(Member::Many(Ranges::digits().negated())),
            'w' => return Ok(Member::Many(Ranges::word())),
            'W' => return Ok(Member::Many(Ranges::word().negated())),
            's' => return Ok(Member::Many(Ranges::space())),
            'S' => return Ok(Member::Many(Ranges::space().negated())),
            'p' | 'P' => {
                let ranges = self.property()?;
                return Ok(Member::Many(if character == 'P' { ranges.negated() } else { ranges }));
            }
            't' => '\t',
            'n' => '\n',
            'v' => '\u{b}',
            'f' => '\u{c}',
            'r' => '\r',
            '0' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => '\0',
            'c' => match self.next() {
                Some(letter) if letter.is_ascii_alphabetic() => char::from((letter as u8) % 32),
                _ => return Err("`\\c` needs a letter".to_owned()),
            },
            'x' => self.hex(2).and_then(char::from_u32).ok_or("`\\x` needs two hexadecimal digits")?,
            'u' => self.unicode()?,
            other if other.is_alphanumeric() => {
                return Err(format!("`\\{other}` is not part of ECMA-262"));
            }
            other => other,
        };
        Ok(Member::One(one))
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text: String = self.characters[self.at..].iter().take(digits).collect();
        if text.len() != digits || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        self.at += digits;
        u32::from_str_radix(&text, 16).ok()
    }

    /// Parses `\uXXXX`, two of them as one character, or `\u{…}`.
    fn unicode(&mut self) -> Result<char, String> {
        let wrong = || "`\\u` needs four hexadecimal digits, or some in braces, that are a character".to_owned();
        if self.takes("{") {
            let length = self.characters[self.at..].iter().position(|character| *character == '}').ok_or_else(wrong)?;
            let code = if length <= 8 { self.hex(length) } else { None };
            self.at += 1;
            return code.and_then(char::from_u32).ok_or_else(wrong);
        }
        let first = self.hex(4).ok_or_else(wrong)?;
        if (0xd800..0xdc00).contains(&first) && self.takes("\\u") {
            let second = self.hex(4).filter(|second| (0xdc00..0xe000).contains(second)).ok_or_else(wrong)?;
            return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)).ok_or_else(wrong);
        }
        char::from_u32(first).ok_or_else(wrong)
    }

    fn property(&mut self) -> Result<Ranges, String> {
        let rest = &self.characters[self.at..];
        let length = rest.iter().position(|character| *character == '}').unwrap_or(0);
        let text: String = rest[..length].iter().collect();
        let name = text.strip_prefix('{').filter(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'=')
        });
        let ranges = name.and_then(Ranges::property);
        self.at += length + 1;
        ranges.ok_or_else(|| "`\\p` needs the name of a property of characters in braces".to_owned())
    }

    /// Parses the rest of a class after its `[`.
    fn class(&mut self) -> Result<Tree, String> {
        let negated = self.takes("^");
        let mut ranges = Ranges::default();
        loop {
            if self.takes("]") {
                break;
            }
            let first = self.member()?;
            let is_range = self.peek() == Some('-') && !matches!(self.characters.get(self.at + 1), None | Some(']'));
            if !is_range {
                add(&mut ranges, first);
            } else {
                self.at += 1;
                match (first, self.member()?) {
                    (Member::One(first), Member::One(last)) if first > last => {
                        return Err("a range of characters is out of order".to_owned());
                    }
                    (Member::One(first), Member::One(last)) => ranges.add(first, last),
                    // As in `[\w-.]`: the `-` is one of the characters.
                    (first, last) => {
                        add(&mut ranges, first);
                        ranges.add('-', '-');
                        add(&mut ranges, last);
                    }
                }
            }
            if self.ranges + ranges.len() > self.bounds.pattern {
                return Err(too_large());
            }
        }
        self.set(if negated { ranges.negated() } else { ranges })
    }

    /// Parses one member of a class.
    fn member(&mut self) -> Result<Member, String> {
        match self.next() {
            None => Err("a `[` has no `]`".to_owned()),
            Some('\\') if self.takes("b") => Ok(Member::One('\u{8}')),
            Some('\\') => self.member_escape(),
            Some(character) => Ok(Member::One(character)),
        }
    }
}

fn add(ranges: &mut Ranges, member: Member) {
    match member {
        Member::One(character) => ranges.add(character, character),
        Member::Many(others) => ranges.add_all(&others),
    }
}

/// The error for a pattern that exceeds its bound.
pub(super) fn too_large() -> String {
    "it is too large when compiled".to_owned()
}
