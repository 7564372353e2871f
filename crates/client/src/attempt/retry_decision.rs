//! The decision whether another attempt can help.

use std::time::Duration;

use seqsvr_proto::v1::Reason;
use tonic::Code;

/// Decision that follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Do not retry: another attempt would end the same way.
    Stop,
    /// Retry after a backoff.
    Retry,
    /// Retry, not earlier than after this time.
    RetryAfter(Duration),
}

impl RetryDecision {
    /// Decides whether a retry can help; a retry is always safe.
    pub(crate) fn new(code: Code, reason: Reason, hint: Duration) -> RetryDecision {
        let retry = if hint.is_zero() {
            RetryDecision::Retry
        } else {
            RetryDecision::RetryAfter(hint)
        };
        match (code, reason) {
            (
                _,
                Reason::NotOwner
                | Reason::NoLease
                | Reason::WindowExhausted
                | Reason::StaleEpoch
                | Reason::NotLeader
                | Reason::NotInitialized
                | Reason::Unreachable
                | Reason::ClusterMismatch,
            ) => retry,
            (Code::Unavailable | Code::Aborted | Code::Cancelled | Code::DeadlineExceeded, _) => {
                retry
            }
            (Code::ResourceExhausted, _) if !hint.is_zero() => retry,
            _ => RetryDecision::Stop,
        }
    }

    /// Returns the time before which a retry is too early, if a server named one.
    pub(crate) fn retry_after(self) -> Option<Duration> {
        match self {
            RetryDecision::RetryAfter(hint) => Some(hint),
            RetryDecision::Stop | RetryDecision::Retry => None,
        }
    }
}
