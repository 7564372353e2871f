//! Why a generator gives no id.

/// No id at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoId {
    /// The grant is used up until it is widened.
    #[error("no id at present: the grant is used up; renew it and widen the generator")]
    Limit,
    /// The ids up to the greatest tick that may be stamped now are used up.
    #[error("no id at present: the tick is used up; retry in {wait_ticks} ticks")]
    Full {
        /// Ticks until a retry can succeed.
        wait_ticks: u64,
    },
    /// The layout has no later tick.
    #[error(
        "no id at present: the time of the layout has ended; use a later epoch, or a layout with \
         more time, such as time:42"
    )]
    EndOfTime,
    /// The generator was sealed.
    #[error(
        "no id at present: the generator is sealed; take from the next generator of the worker"
    )]
    Sealed,
    /// The clock is behind, and the policy continues in no lane.
    #[error(
        "clock moved back by {behind_ticks} ticks: no id is made at this reading; retry when it has \
         caught up, correct it, or use the policy `hold` or `ahead`"
    )]
    MovedBack {
        /// How far the clock is behind the last id.
        behind_ticks: u64,
        /// How long the policy waits; 0 if it rejects the call.
        wait_ticks: u64,
    },
}

impl NoId {
    /// Returns how many ticks a caller waits before it retries; 0 if time alone does not help, or
    /// the policy does not wait.
    pub fn wait_ticks(self) -> u64 {
        match self {
            Self::Full { wait_ticks } | Self::MovedBack { wait_ticks, .. } => wait_ticks,
            Self::Limit | Self::EndOfTime | Self::Sealed => 0,
        }
    }
}
