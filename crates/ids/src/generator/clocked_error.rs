//! Why a generator with a clock gives no id.

use super::Full;

/// No id by the clock and the policy of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClockedError {
    /// All ids that may be stamped now are used up.
    #[error(transparent)]
    Full(#[from] Full),
    /// The clock is a little behind: a retry after a wait may succeed.
    #[error(
        "clock moved back by {behind_ticks} ticks: no id is made before it has caught up; wait \
         {wait_ticks} ticks and read it again"
    )]
    Behind {
        /// How far the clock is behind the last id.
        behind_ticks: u64,
        /// How long the policy waits.
        wait_ticks: u64,
    },
    /// The policy rejects calls until the clock has caught up.
    #[error(
        "clock moved back by {behind_ticks} ticks: ids are rejected until it has caught up; \
         correct the clock, or use the policy `hold` or `ahead`"
    )]
    MovedBack {
        /// How far the clock is behind the last id.
        behind_ticks: u64,
    },
    /// No lane is left whose ticks at the reading are not used.
    #[error(
        "clock moved back by {behind_ticks} ticks: none of the {lanes} lanes can continue there; \
         wait until the clock has caught up"
    )]
    NoLane {
        /// How far the clock is behind the last id.
        behind_ticks: u64,
        /// Lanes of the layout.
        lanes: usize,
    },
}
