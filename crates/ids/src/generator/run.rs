//! Answer of a generator.

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
