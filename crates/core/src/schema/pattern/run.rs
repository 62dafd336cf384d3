//! Runs a pattern over a text.

use super::super::bounds::{BOUNDS, Steps, Stop};
use super::Pattern;
use super::compile::Op;

/// The state of a match. It is reused for one match after the other.
#[derive(Debug, Default)]
pub(in super::super) struct Machine {
    /// Where to continue when a way fails; the last entry is tried first.
    ways: Vec<Way>,
    registers: Vec<Option<usize>>,
    /// A bit for each branch and position that was tried and failed.
    tried: Vec<u64>,
}

/// What to do when a way fails.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// Continue from here.
    From { op: usize, at: usize },
    /// Continue with one character less, down to `least`.
    Less { op: usize, at: usize, least: usize },
    /// Restore a stored position, and take the way before.
    Restore { register: usize, was: Option<usize> },
}

/// A text that is read in one direction.
#[derive(Clone, Copy)]
struct Reader<'a> {
    text: &'a str,
    backwards: bool,
}

impl Reader<'_> {
    /// The next character, and where it ends.
    fn next(self, at: usize) -> Option<(char, usize)> {
        if self.backwards {
            return before(self.text, at).map(|character| (character, at - character.len_utf8()));
        }
        let byte = *self.text.as_bytes().get(at)?;
        if byte < 128 {
            return Some((char::from(byte), at + 1));
        }
        let character = self.text[at..].chars().next()?;
        Some((character, at + character.len_utf8()))
    }

    fn turned(self) -> Self {
        Self { backwards: !self.backwards, ..self }
    }
}

fn before(text: &str, at: usize) -> Option<char> {
    text[..at].chars().next_back()
}

fn is_word(character: Option<char>) -> bool {
    character.is_some_and(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// The run of a pattern over a text.
#[derive(Clone, Copy)]
struct Run<'a> {
    pattern: &'a Pattern,
    reader: Reader<'a>,
    /// Whether the run remembers what it has tried. Inside look-around this would be wrong, since something that has
    /// matched before may be matched again.
    remembers: bool,
}

/// The result of an instruction.
enum Step {
    On { op: usize, at: usize },
    Failed,
    Matched,
}

impl Machine {
    /// Whether a pattern matches somewhere in a text.
    pub(super) fn search(&mut self, pattern: &Pattern, text: &str, steps: &mut Steps) -> Result<bool, Stop> {
        self.ways.clear();
        self.registers.clear();
        self.registers.resize(pattern.registers, None);
        self.tried.clear();
        let bits = pattern.branches.saturating_mul(text.len() + 1);
        let memory = if bits <= BOUNDS.remembered { bits.div_ceil(64) } else { 0 };
        steps.take(1 + (memory + pattern.registers) / 8)?;
        self.tried.resize(memory, 0);
        let run = Run { pattern, reader: Reader { text, backwards: false }, remembers: memory > 0 };
        let mut start = 0;
        while !self.run(run, 0, start, steps)? {
            match run.reader.next(start) {
                // A pattern that begins with `^` can match nowhere else.
                Some((_, next)) if !matches!(pattern.ops.first(), Some(Op::Start)) => start = next,
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether the pattern matches from this instruction and position on.
    fn run(&mut self, run: Run<'_>, op: usize, at: usize, steps: &mut Steps) -> Result<bool, Stop> {
        let bottom = self.ways.len();
        let (mut op, mut at) = (op, at);
        loop {
            steps.take(1)?;
            match self.step(run, op, at, steps)? {
                Step::On { op: next, at: place } => (op, at) = (next, place),
                Step::Matched => return Ok(true),
                Step::Failed => match self.another_way(run.reader, bottom) {
                    Some(way) => (op, at) = way,
                    None => return Ok(false),
                },
            }
        }
    }

    fn step(&mut self, run: Run<'_>, op: usize, at: usize, steps: &mut Steps) -> Result<Step, Stop> {
        let Run { pattern, reader, .. } = run;
        let holds = |holds: bool| if holds { Step::On { op: op + 1, at } } else { Step::Failed };
        Ok(match pattern.ops[op] {
            Op::One { set } => match reader.next(at) {
                Some((character, next)) if pattern.sets[usize::from(set)].contains(character) => {
                    Step::On { op: op + 1, at: next }
                }
                _ => Step::Failed,
            },
            Op::Exactly { set, count } => match self.characters(run, set, count, at, steps)? {
                (found, end) if found == count => Step::On { op: op + 1, at: end },
                _ => Step::Failed,
            },
            Op::UpTo { branch, .. } | Op::Any { branch, .. } | Op::Split { branch, .. }
                if self.was_tried(run, branch, at) =>
            {
                Step::Failed
            }
            Op::UpTo { set, count, .. } => {
                let (_, end) = self.characters(run, set, count, at, steps)?;
                if end != at {
                    self.ways.push(Way::Less { op: op + 1, at: end, least: at });
                }
                Step::On { op: op + 1, at: end }
            }
            Op::Any { set, .. } => match reader.next(at) {
                Some((character, next)) if pattern.sets[usize::from(set)].contains(character) => {
                    self.ways.push(Way::From { op: op + 1, at });
                    Step::On { op, at: next }
                }
                _ => Step::On { op: op + 1, at },
            },
            Op::Split { other, .. } => {
                self.ways.push(Way::From { op: usize::from(other), at });
                Step::On { op: op + 1, at }
            }
            Op::Jump { to } => Step::On { op: usize::from(to), at },
            Op::Start => holds(at == 0),
            Op::End => holds(at == reader.text.len()),
            Op::WordBoundary { negated } => {
                let text = reader.text;
                holds((is_word(before(text, at)) != is_word(text[at..].chars().next())) != negated)
            }
            Op::Save { register } => {
                self.keep(usize::from(register), Some(at));
                Step::On { op: op + 1, at }
            }
            Op::Forget { first, last } => {
                steps.take(usize::from(last - first))?;
                (first..=last).for_each(|register| self.keep(usize::from(register), None));
                Step::On { op: op + 1, at }
            }
            Op::GotOn { register } => holds(self.registers[usize::from(register)] != Some(at)),
            Op::Look { ahead, negated, then } => {
                let look = Run { reader: Reader { backwards: !ahead, ..reader }, remembers: false, ..run };
                let bottom = self.ways.len();
                let matched = self.run(look, op + 1, at, steps)?;
                if matched && !negated {
                    self.stay_with(bottom);
                } else {
                    // The positions that it stored do not count.
                    self.undo(bottom);
                }
                if matched == negated { Step::Failed } else { Step::On { op: usize::from(then), at } }
            }
            Op::Same { register } => self.same(reader, usize::from(register), op, at, steps)?,
            Op::Matched => Step::Matched,
        })
    }

    /// Reads up to `most` characters of a set. Returns how many there are, and where they end.
    fn characters(
        &self,
        run: Run<'_>,
        set: u16,
        most: u32,
        at: usize,
        steps: &mut Steps,
    ) -> Result<(u32, usize), Stop> {
        let set = &run.pattern.sets[usize::from(set)];
        let (mut found, mut end) = (0, at);
        while found < most
            && let Some((character, next)) = run.reader.next(end)
            && set.contains(character)
        {
            steps.take(1)?;
            (found, end) = (found + 1, next);
        }
        Ok((found, end))
    }

    /// Whether a branch was tried at this position before. Marks it as tried.
    fn was_tried(&mut self, run: Run<'_>, branch: u16, at: usize) -> bool {
        if !run.remembers {
            return false;
        }
        let bit = usize::from(branch) * (run.reader.text.len() + 1) + at;
        let (word, mask) = (&mut self.tried[bit / 64], 1 << (bit % 64));
        let was = *word & mask != 0;
        *word |= mask;
        was
    }

    fn keep(&mut self, register: usize, value: Option<usize>) {
        let was = std::mem::replace(&mut self.registers[register], value);
        self.ways.push(Way::Restore { register, was });
    }

    /// Takes the last way above `bottom`.
    fn another_way(&mut self, reader: Reader<'_>, bottom: usize) -> Option<(usize, usize)> {
        while self.ways.len() > bottom {
            match self.ways.pop()? {
                Way::From { op, at } => return Some((op, at)),
                Way::Less { op, at, least } => {
                    let (_, less) = reader.turned().next(at)?;
                    if less != least {
                        self.ways.push(Way::Less { op, at: less, least });
                    }
                    return Some((op, less));
                }
                Way::Restore { register, was } => self.registers[register] = was,
            }
        }
        None
    }

    /// Drops all ways above `bottom`, and restores stored positions.
    fn undo(&mut self, bottom: usize) {
        while self.ways.len() > bottom {
            if let Some(Way::Restore { register, was }) = self.ways.pop() {
                self.registers[register] = was;
            }
        }
    }

    /// Drops the alternatives above `bottom`, but keeps the entries that restore positions.
    fn stay_with(&mut self, bottom: usize) {
        let ways = self.ways.split_off(bottom);
        self.ways.extend(ways.into_iter().filter(|way| matches!(way, Way::Restore { .. })));
    }

    /// Matches the text of a group again. A group without a text matches the empty text.
    fn same(&self, reader: Reader<'_>, register: usize, op: usize, at: usize, steps: &mut Steps) -> Result<Step, Stop> {
        let (Some(begin), Some(end)) = (self.registers[register], self.registers[register + 1]) else {
            return Ok(Step::On { op: op + 1, at });
        };
        let group = &reader.text[begin.min(end)..begin.max(end)];
        steps.read(group.len())?;
        Ok(match reader.backwards {
            false if reader.text[at..].starts_with(group) => Step::On { op: op + 1, at: at + group.len() },
            true if reader.text[..at].ends_with(group) => Step::On { op: op + 1, at: at - group.len() },
            _ => Step::Failed,
        })
    }
}
