//! Regular expressions of ECMA-262, with a bound on their cost.
//!
//! The engine is our own, since clients' patterns need what no other engine has at once: look-around and
//! back-references (zod's e-mail address), the syntax of ECMA-262, and a count of steps that a check can run out of. A
//! pattern with neither look-around nor back-references never tries a part of it twice at one place of the text, so a
//! match takes a number of steps in proportion to the text.

mod compile;
mod parse;
mod run;
mod set;

use self::compile::Op;
pub(super) use self::run::Machine;
use self::set::Set;
use super::bounds::{Bounds, Steps, Stop};

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    source: Box<str>,
    ops: Box<[Op]>,
    sets: Box<[Set]>,
    /// How many positions a match stores: of groups that are referred to, and of the beginnings of loops.
    registers: usize,
    /// The number of places where a match branches. With 0, a match does not remember what it has tried.
    branches: usize,
}

impl Pattern {
    /// Compiles a pattern. The error says what is wrong with it.
    pub(super) fn compile(source: &str, bounds: &Bounds) -> Result<Self, String> {
        let parsed = parse::parse(source, bounds)?;
        compile::compile(source, parsed, bounds)
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// The size of the pattern, which counts against the bounds.
    pub(super) fn size(&self) -> usize {
        self.ops.len() + self.sets.iter().map(Set::size).sum::<usize>()
    }

    /// Whether the pattern matches somewhere in a text.
    pub(super) fn matches(&self, text: &str, machine: &mut Machine, steps: &mut Steps) -> Result<bool, Stop> {
        machine.search(self, text, steps)
    }
}

#[cfg(test)]
mod tests;
