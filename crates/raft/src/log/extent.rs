//! How far a log reaches.

use crate::types::Vote;

/// Vote and end of a log at one moment.
pub(crate) struct LogExtent {
    /// The saved vote.
    pub(crate) vote: Option<Vote>,
    /// One past the last entry that is in the log, was purged from it, or is covered by a received
    /// snapshot.
    pub(crate) end: u64,
}
