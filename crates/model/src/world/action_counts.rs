//! Counts of the actions that a scenario limits.

/// Number of times that each limited action happened in a run, or may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ActionCounts {
    /// Opens of the section.
    pub(crate) opens: u8,
    /// Raises of the window.
    pub(crate) raises: u8,
    /// Closes of the section.
    pub(crate) closes: u8,
    /// Planned moves of the slot.
    pub(crate) moves: u8,
    /// Sessions that their process closes.
    pub(crate) leaves: u8,
    /// Sessions that a process opens.
    pub(crate) sessions: u8,
    /// Crashes of a process.
    pub(crate) crashes: u8,
    /// Expiries of a session in one step, without a StoreSvr node.
    pub(crate) expiries: u8,
    /// Assignments of the slot in one step, without a StoreSvr node.
    pub(crate) assigns: u8,
    /// Times that the stores are wiped and become another cluster.
    pub(crate) new_clusters: u8,
}

impl ActionCounts {
    /// No action.
    pub(crate) const NONE: ActionCounts = ActionCounts {
        opens: 0,
        raises: 0,
        closes: 0,
        moves: 0,
        leaves: 0,
        sessions: 0,
        crashes: 0,
        expiries: 0,
        assigns: 0,
        new_clusters: 0,
    };
}
