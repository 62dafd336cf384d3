//! What a client's schemas and inputs may cost.
//!
//! These are constants and no settings, because they keep any client from stopping the server. A step is some ten
//! nanoseconds of work in a release build.

/// The bounds of schemas and of checking inputs against them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Steps of one check. An input that takes more is refused.
    pub(super) steps: u64,
    /// Steps of a check on a serving thread. A check that takes more starts over on another thread.
    pub(super) steps_at_once: u64,
    /// Bytes of an input that is checked on a serving thread. A larger one is checked on another thread.
    pub(super) bytes_at_once: usize,
    /// Subschemas evaluated inside each other. An input that takes more is refused, and so is a schema that takes more
    /// for any input.
    pub(super) nested: usize,
    /// Different patterns of a schema. A schema with more is refused.
    pub(super) patterns: usize,
    /// Instructions and ranges of characters of one pattern. A schema with a larger one is refused.
    pub(super) pattern: usize,
    /// Instructions and ranges of characters of all patterns of a schema. A schema with more is refused.
    pub(super) all_patterns: usize,
    /// Groups of a pattern inside each other. A schema with a deeper pattern is refused.
    pub(super) groups: usize,
    /// Bits of memory of a match. With a longer text, a match remembers nothing and takes more steps.
    pub(super) remembered: usize,
}

pub(super) const BOUNDS: Bounds = Bounds {
    steps: 500_000,
    steps_at_once: 20_000,
    bytes_at_once: 32 << 10,
    nested: 512,
    patterns: 64,
    pattern: 4_096,
    all_patterns: 16_384,
    groups: 32,
    remembered: 8 << 20,
};

/// Why a check stopped without a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// No steps are left.
    Steps,
    /// Too many subschemas are evaluated inside each other.
    Nested,
    /// Enough violations are known.
    Enough,
}

/// The steps that are left.
#[derive(Debug)]
pub(super) struct Steps(u64);

impl Steps {
    pub(super) fn new(steps: u64) -> Self {
        Self(steps)
    }

    pub(super) fn take(&mut self, steps: usize) -> Result<(), Stop> {
        self.0 = self.0.checked_sub(steps as u64).ok_or(Stop::Steps)?;
        Ok(())
    }

    /// Takes the steps for reading this many bytes.
    pub(super) fn read(&mut self, bytes: usize) -> Result<(), Stop> {
        self.take(1 + bytes / 64)
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> u64 {
        self.0
    }
}
