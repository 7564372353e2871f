//! Result of a run.

use std::collections::BTreeMap;
use std::time::Duration;

/// Minimum answered calls of a useful run. A run with fewer counts as starved.
pub const ANSWERED_CALLS_MIN: u64 = 100;

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct RunOutcome {
    /// Broken rules, as text.
    pub broken_rules: Vec<String>,
    /// Hash over all events.
    pub hash: u64,
    /// Number of events.
    pub event_count: u64,
    /// Number of calls.
    pub call_count: u64,
    /// Number of calls that got an answer.
    pub answered_calls: u64,
    /// Number of ids that callers received.
    pub id_count: u64,
    /// Simulated time of the run, ms.
    pub simulated_ms: u64,
    /// Real time of the run.
    pub real_time: Duration,
    /// Number of times that the run reached each branch.
    pub reached_branches: BTreeMap<&'static str, u64>,
    /// Calls without an answer and the view of each server at the end of a failed run, as text.
    pub end_state: Vec<String>,
    /// Last events before the end, as text.
    pub last_events: Vec<String>,
}

impl RunOutcome {
    /// Returns whether the run has too few answers to prove anything.
    pub fn is_starved(&self) -> bool {
        self.answered_calls < ANSWERED_CALLS_MIN
    }
}
