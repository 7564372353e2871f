//! Time limit of one attempt.

use std::time::Duration;

use tokio::time::Instant;

/// Time until which one attempt waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptDeadline {
    pub(crate) expires_at: Instant,
    /// Length of the attempt, for the error.
    pub(crate) timeout: Duration,
}
