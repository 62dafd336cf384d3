//! What becomes of writes that cannot be written at once.

use handback_core::store::IfFull;

/// What becomes of a write that cannot be written now, but perhaps later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    /// It fails, and so it does while an earlier write to its session waits.
    Fails,
    /// It waits.
    Waits,
    /// It fails, but makes room, so it overtakes the writes that wait.
    MakesRoom,
}

impl From<IfFull> for Rank {
    fn from(if_full: IfFull) -> Self {
        match if_full {
            IfFull::Fails => Self::Fails,
            IfFull::Waits => Self::Waits,
        }
    }
}
