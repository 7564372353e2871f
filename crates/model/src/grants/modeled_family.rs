//! The family of ids that a scenario of grants has.

/// How the lanes of a worker are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaneUse {
    /// A worker has one lane.
    One,
    /// A lane is used again above its own until.
    Reuse,
    /// A lane that was left is never used again.
    Once,
}

impl LaneUse {
    /// Returns the number of lanes of a worker.
    pub(crate) fn count(self) -> usize {
        match self {
            LaneUse::One => 1,
            LaneUse::Reuse | LaneUse::Once => 2,
        }
    }
}

/// A family: its workers, and what bounds their grants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModeledFamily {
    /// Worker numbers.
    pub(crate) workers: usize,
    /// Whether all processes have one name and get its worker again.
    pub(crate) is_sticky: bool,
    /// How lanes are used.
    pub(crate) lanes: LaneUse,
    /// The last tick of the layout.
    pub(crate) last_tick: u8,
}
