//! Sets of characters.

/// The largest code point.
const LAST: u32 = char::MAX as u32;

/// A set of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set {
    /// A bit for each ASCII character.
    ascii: u128,
    /// Ranges of the other characters: sorted, and no two touch.
    others: Box<[(u32, u32)]>,
}

impl Set {
    pub(super) fn contains(&self, character: char) -> bool {
        let code = u32::from(character);
        if code < 128 {
            return self.ascii >> code & 1 == 1;
        }
        let after = self.others.partition_point(|(first, _)| *first <= code);
        after > 0 && self.others[after - 1].1 >= code
    }

    pub(super) fn size(&self) -> usize {
        1 + self.others.len()
    }
}

/// Ranges of characters that become a set.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    pub(super) fn of(ranges: &[(char, char)]) -> Self {
        Self(ranges.iter().map(|(first, last)| (u32::from(*first), u32::from(*last))).collect())
    }

    pub(super) fn one(character: char) -> Self {
        Self::of(&[(character, character)])
    }

    /// `\d`.
    pub(super) fn digits() -> Self {
        Self::of(&[('0', '9')])
    }

    /// `\w`.
    pub(super) fn word() -> Self {
        Self::of(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')])
    }

    /// `\s`.
    pub(super) fn space() -> Self {
        Self::of(&[
            ('\t', '\r'),
            (' ', ' '),
            ('\u{a0}', '\u{a0}'),
            ('\u{1680}', '\u{1680}'),
            ('\u{2000}', '\u{200a}'),
            ('\u{2028}', '\u{2029}'),
            ('\u{202f}', '\u{202f}'),
            ('\u{205f}', '\u{205f}'),
            ('\u{3000}', '\u{3000}'),
            ('\u{feff}', '\u{feff}'),
        ])
    }

    /// The line ends, which `.` does not match.
    pub(super) fn line_ends() -> Self {
        Self::of(&[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')])
    }

    /// `\p{…}`, if there is such a property.
    pub(super) fn property(name: &str) -> Option<Self> {
        use regex_syntax::hir::{Class, HirKind};
        match regex_syntax::parse(&format!(r"\p{{{name}}}")).ok()?.into_kind() {
            HirKind::Class(Class::Unicode(class)) => {
                Some(Self(class.ranges().iter().map(|r| (u32::from(r.start()), u32::from(r.end()))).collect()))
            }
            HirKind::Class(Class::Bytes(class)) => {
                Some(Self(class.ranges().iter().map(|r| (u32::from(r.start()), u32::from(r.end()))).collect()))
            }
            HirKind::Literal(literal) => Some(Self::one(std::str::from_utf8(&literal.0).ok()?.chars().next()?)),
            _ => None,
        }
    }

    pub(super) fn add(&mut self, first: char, last: char) {
        self.0.push((u32::from(first), u32::from(last)));
    }

    pub(super) fn add_all(&mut self, others: &Self) {
        self.0.extend(&others.0);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn negated(self) -> Self {
        let mut next = 0;
        let mut ranges = Vec::with_capacity(self.0.len() + 1);
        for (first, last) in self.merged().0 {
            if first > next {
                ranges.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        Self(ranges)
    }

    /// The same ranges sorted, with touching ones merged.
    fn merged(mut self) -> Self {
        self.0.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for (first, last) in self.0 {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => merged.push((first, last)),
            }
        }
        Self(merged)
    }

    pub(super) fn into_set(self) -> Set {
        let ranges = self.merged().0;
        let mut ascii = 0;
        for (first, last) in ranges.iter().filter(|(first, _)| *first < 128) {
            (*first..=(*last).min(127)).for_each(|code| ascii |= 1 << code);
        }
        let beyond = ranges.into_iter().filter(|(_, last)| *last >= 128);
        Set { ascii, others: beyond.map(|(first, last)| (first.max(128), last)).collect() }
    }
}
