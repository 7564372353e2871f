//! Counts of the actions that a scenario of grants limits.

/// Number of times that each limited action happened in a run, or may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GrantActionCounts {
    /// Acquisitions, without their retries.
    pub(crate) acquisitions: u8,
    /// Renewals, without their retries.
    pub(crate) renewals: u8,
    /// Releases, without their retries.
    pub(crate) releases: u8,
    /// Revocations.
    pub(crate) revocations: u8,
    /// Times that an operator sets the store time back.
    pub(crate) set_backs: u8,
    /// Times that an operator raises the floor.
    pub(crate) floor_raises: u8,
}

impl GrantActionCounts {
    /// No action.
    pub(crate) const NONE: GrantActionCounts = GrantActionCounts {
        acquisitions: 0,
        renewals: 0,
        releases: 0,
        revocations: 0,
        set_backs: 0,
        floor_raises: 0,
    };
}
