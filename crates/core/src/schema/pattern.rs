//! Patterns as ECMA-262 has them, with a bound on what they cost.
//!
//! An engine of our own, since patterns of clients need what no other engine has at once: look-around and
//! back-references (zod's e-mail address), the spelling of ECMA-262, and a count of steps that a check can run out of.
//! Where a pattern has neither of these two, no part of it is tried twice at one place of the text: such a match takes
//! a number of steps in proportion to the text.

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
    /// How many positions a match keeps: of groups that are referred to, and of the beginnings of loops.
    registers: usize,
    /// Places where a match branches; each has a number. 0: what has been tried is not remembered.
    branches: usize,
}

impl Pattern {
    /// Compiles a pattern; an error says what is wrong with it.
    pub(super) fn compile(source: &str, bounds: &Bounds) -> Result<Self, String> {
        let parsed = parse::parse(source, bounds)?;
        compile::compile(source, parsed, bounds)
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    /// How much of the bounds it takes.
    pub(super) fn size(&self) -> usize {
        self.ops.len() + self.sets.iter().map(Set::size).sum::<usize>()
    }

    /// Whether it matches somewhere in a text.
    pub(super) fn matches(&self, text: &str, machine: &mut Machine, steps: &mut Steps) -> Result<bool, Stop> {
        machine.search(self, text, steps)
    }
}

#[cfg(test)]
mod tests;
