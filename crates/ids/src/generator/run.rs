//! Answers of a generator.

/// Consecutive positions of one lane, which belong to the caller that took them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Lane of all of them.
    pub lane: u8,
    /// First position.
    pub first: u64,
    /// Number of positions; fewer than requested at the end of a tick or a grant.
    pub count: u64,
}

/// No id at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no id at present: {reason}; {}", reason.remedy(*wait_ticks))]
pub struct Full {
    /// What stops it.
    pub reason: FullReason,
    /// Ticks until a retry can succeed; 0 if time alone does not help.
    pub wait_ticks: u64,
}

/// What stops a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FullReason {
    /// The grant is used up until it is widened.
    #[error("the grant is used up")]
    Limit,
    /// The ids up to the greatest tick that may be stamped now are used up.
    #[error("the tick is used up")]
    Ahead,
    /// The layout has no later tick.
    #[error("the time of the layout has ended")]
    EndOfTime,
    /// The generator was sealed.
    #[error("the generator is sealed")]
    Sealed,
}

impl FullReason {
    /// Returns what a caller can do.
    fn remedy(self, wait_ticks: u64) -> String {
        match self {
            Self::Limit => String::from("renew it and widen the generator"),
            Self::Ahead => format!("retry in {wait_ticks} ticks"),
            Self::EndOfTime => {
                String::from("use a later epoch, or a layout with more time, such as time:42")
            }
            Self::Sealed => String::from("take from the next generator of the worker"),
        }
    }
}

/// Time alone does not help.
impl From<FullReason> for Full {
    fn from(reason: FullReason) -> Self {
        Self {
            reason,
            wait_ticks: 0,
        }
    }
}
