//! Compiles the tree of a pattern to a program.

use super::super::bounds::Bounds;
use super::Pattern;
use super::parse::{Parsed, Reference, Tree, too_large};
use super::set::Set;

/// An instruction. Instructions that branch have a number, by which a match remembers that they were tried.
#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    /// One character of a set.
    One {
        set: u16,
    },
    /// Exactly `count` characters of a set.
    Exactly {
        set: u16,
        count: u32,
    },
    /// Up to `count` characters of a set.
    UpTo {
        set: u16,
        count: u32,
        branch: u16,
    },
    /// As many characters of a set as there are, or fewer.
    Any {
        set: u16,
        branch: u16,
    },
    /// Continues with the next instruction, or else with `other`.
    Split {
        other: u16,
        branch: u16,
    },
    Jump {
        to: u16,
    },
    Start,
    End,
    WordBoundary {
        negated: bool,
    },
    /// Stores the position.
    Save {
        register: u16,
    },
    /// Clears stored positions.
    Forget {
        first: u16,
        last: u16,
    },
    /// Fails if the position is still the stored one: a loop repeats only if it made progress.
    GotOn {
        register: u16,
    },
    /// Tries what follows up to `Matched` from here, forwards or backwards, then continues at `then`.
    Look {
        ahead: bool,
        negated: bool,
        then: u16,
    },
    /// A back-reference: matches the same text that the group matched before.
    Same {
        register: u16,
    },
    Matched,
}

pub(super) fn compile(source: &str, parsed: Parsed, bounds: &Bounds) -> Result<Pattern, String> {
    // If the pattern has back-references, each group stores its beginning and its end.
    let registers = if parsed.refers_back { 2 * parsed.groups } else { 0 };
    let mut compiler = Compiler { parsed: &parsed, bounds, ops: Vec::new(), sets: Vec::new(), registers, branches: 0 };
    compiler.tree(&parsed.tree, Direction::Forwards)?;
    compiler.push(Op::Matched)?;
    Ok(Pattern {
        source: source.into(),
        ops: compiler.ops.into(),
        sets: compiler.sets.into(),
        registers: compiler.registers,
        // A branch that fails with one text of a group may match with another, so nothing is remembered then.
        branches: if parsed.refers_back { 0 } else { compiler.branches },
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forwards,
    Backwards,
}

struct Compiler<'a> {
    parsed: &'a Parsed,
    bounds: &'a Bounds,
    ops: Vec<Op>,
    sets: Vec<Set>,
    registers: usize,
    branches: usize,
}

impl Compiler<'_> {
    /// Adds an instruction, and returns its index.
    fn push(&mut self, op: Op) -> Result<usize, String> {
        if self.ops.len() >= self.bounds.pattern {
            return Err(too_large());
        }
        self.ops.push(op);
        Ok(self.ops.len() - 1)
    }

    fn tree(&mut self, tree: &Tree, direction: Direction) -> Result<(), String> {
        match tree {
            Tree::Set(set) => {
                let set = self.set(set);
                self.push(Op::One { set }).map(|_| ())
            }
            Tree::Start => self.push(Op::Start).map(|_| ()),
            Tree::End => self.push(Op::End).map(|_| ()),
            Tree::WordBoundary { negated } => self.push(Op::WordBoundary { negated: *negated }).map(|_| ()),
            Tree::Sequence(parts) if direction == Direction::Forwards => {
                parts.iter().try_for_each(|part| self.tree(part, direction))
            }
            Tree::Sequence(parts) => parts.iter().rev().try_for_each(|part| self.tree(part, direction)),
            Tree::Alternatives(alternatives) => self.alternatives(alternatives, direction),
            Tree::Group { number, body } => self.group(*number, body, direction),
            Tree::Repeat { body, least, most } => self.repeat(body, *least, *most, direction),
            Tree::Look { body, ahead, negated } => {
                let look = self.push(Op::Look { ahead: *ahead, negated: *negated, then: 0 })?;
                self.tree(body, if *ahead { Direction::Forwards } else { Direction::Backwards })?;
                self.push(Op::Matched)?;
                self.ops[look] = Op::Look { ahead: *ahead, negated: *negated, then: self.here() };
                Ok(())
            }
            Tree::Same(reference) => {
                let number = match reference {
                    Reference::Number(number) => Some(*number).filter(|number| *number <= self.parsed.groups),
                    Reference::Name(name) => self.parsed.names.get(name).copied(),
                };
                let number = number.ok_or("it refers to a group that is not there")?;
                self.push(Op::Same { register: index(2 * (number - 1)) }).map(|_| ())
            }
        }
    }

    fn alternatives(&mut self, alternatives: &[Tree], direction: Direction) -> Result<(), String> {
        let mut ends = Vec::new();
        for (place, alternative) in alternatives.iter().enumerate() {
            if place + 1 == alternatives.len() {
                self.tree(alternative, direction)?;
                break;
            }
            let split = self.split()?;
            self.tree(alternative, direction)?;
            ends.push(self.push(Op::Jump { to: 0 })?);
            self.else_here(split);
        }
        let here = self.here();
        ends.into_iter().for_each(|end| self.ops[end] = Op::Jump { to: here });
        Ok(())
    }

    fn group(&mut self, number: usize, body: &Tree, direction: Direction) -> Result<(), String> {
        if !self.parsed.refers_back {
            return self.tree(body, direction);
        }
        let (begin, end) = (index(2 * (number - 1)), index(2 * (number - 1) + 1));
        let (first, last) = if direction == Direction::Forwards { (begin, end) } else { (end, begin) };
        self.push(Op::Save { register: first })?;
        self.tree(body, direction)?;
        self.push(Op::Save { register: last }).map(|_| ())
    }

    fn repeat(&mut self, body: &Tree, least: u32, most: Option<u32>, direction: Direction) -> Result<(), String> {
        if let Tree::Set(set) = body {
            let set = self.set(set);
            match least {
                0 => {}
                1 => _ = self.push(Op::One { set })?,
                count => _ = self.push(Op::Exactly { set, count })?,
            }
            let branch = index(self.branches);
            self.branches += 1;
            match most {
                None => _ = self.push(Op::Any { set, branch })?,
                Some(most) if most > least => _ = self.push(Op::UpTo { set, count: most - least, branch })?,
                Some(_) => {}
            }
            return Ok(());
        }
        for _ in 0..least {
            let before = self.ops.len();
            self.once(body, direction)?;
            // A body without instructions stays empty, however often it is repeated.
            if self.ops.len() == before {
                return Ok(());
            }
        }
        let Some(most) = most else {
            let split = self.split()?;
            let register = index(self.registers);
            self.registers += 1;
            self.push(Op::Save { register })?;
            self.once(body, direction)?;
            self.push(Op::GotOn { register })?;
            self.push(Op::Jump { to: index(split) })?;
            self.else_here(split);
            return Ok(());
        };
        let mut splits = Vec::new();
        for _ in least..most {
            splits.push(self.split()?);
            self.once(body, direction)?;
        }
        splits.into_iter().for_each(|split| self.else_here(split));
        Ok(())
    }

    /// Compiles the body of a repetition. Each round begins with its groups cleared.
    fn once(&mut self, body: &Tree, direction: Direction) -> Result<(), String> {
        if self.parsed.refers_back
            && let Some((first, last)) = groups(body)
        {
            self.push(Op::Forget { first: index(2 * (first - 1)), last: index(2 * (last - 1) + 1) })?;
        }
        self.tree(body, direction)
    }

    fn split(&mut self) -> Result<usize, String> {
        let branch = index(self.branches);
        self.branches += 1;
        self.push(Op::Split { other: 0, branch })
    }

    /// Makes the next instruction the alternative of a split.
    fn else_here(&mut self, split: usize) {
        let here = self.here();
        if let Op::Split { other, .. } = &mut self.ops[split] {
            *other = here;
        }
    }

    fn here(&self) -> u16 {
        index(self.ops.len())
    }

    fn set(&mut self, set: &Set) -> u16 {
        // Only the newest sets are compared, so that a long pattern is not slow. Most patterns have few sets.
        const LOOKED_AT: usize = 16;
        let known = self.sets.iter().enumerate().rev().take(LOOKED_AT).find(|(_, known)| *known == set);
        if let Some((place, _)) = known {
            return index(place);
        }
        self.sets.push(set.clone());
        index(self.sets.len() - 1)
    }
}

fn groups(tree: &Tree) -> Option<(usize, usize)> {
    match tree {
        Tree::Sequence(parts) | Tree::Alternatives(parts) => {
            let all = parts.iter().filter_map(groups);
            all.reduce(|(first, last), (other, other_last)| (first.min(other), last.max(other_last)))
        }
        Tree::Group { number, body } => Some((*number, groups(body).map_or(*number, |(_, last)| last))),
        Tree::Repeat { body, .. } | Tree::Look { body, .. } => groups(body),
        _ => None,
    }
}

/// An index as instructions store it. The bound of a pattern keeps it far below the limit of `u16`.
fn index(place: usize) -> u16 {
    u16::try_from(place).unwrap_or(u16::MAX)
}
