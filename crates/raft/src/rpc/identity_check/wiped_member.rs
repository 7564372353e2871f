//! Remembers that a living cluster calls this node as a member on another data directory.
//!
//! Invariant: an empty directory under the id and address of a member belongs to no other cluster
//! while the cluster of that member calls it. Schedules that break it: one of three stores loses
//! its directory, and an operator runs `init` with that store alone, or with it and new ones. A
//! second cluster begins at the address of the first one and gives its numbers again.
//!
//! A node that has just started has not been called yet; then the AllocSvrs are what detects the
//! second cluster, see `alloc/src/store_client/cluster_votes.rs`.

use std::time::Duration;

use seqsvr_core::ids::ClusterId;
use tokio::time::Instant;

/// Time after the last such call for which the cluster counts as living. A leader calls a member
/// that rejects it several times in a second.
const CALL_AGE_MAX: Duration = Duration::from_secs(5);

/// A call that named this node with the incarnation of another directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StaleCall {
    /// Cluster of the caller.
    pub(crate) cluster: ClusterId,
    /// Store that called.
    pub(crate) sender: u64,
}

/// The last such call, with its time.
#[derive(Default)]
pub(crate) struct WipedMember(parking_lot::Mutex<Option<(StaleCall, Instant)>>);

impl WipedMember {
    /// Notes a call.
    pub(crate) fn note_call(&self, call: StaleCall) {
        *self.0.lock() = Some((call, Instant::now()));
    }

    /// Returns the last call; None if it is older than [`CALL_AGE_MAX`].
    pub(crate) fn recent_call(&self) -> Option<StaleCall> {
        let (call, at) = (*self.0.lock())?;
        (at.elapsed() < CALL_AGE_MAX).then_some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn stale_call_is_forgotten_after_its_time() {
        let member = WipedMember::default();
        assert_eq!(member.recent_call(), None);
        let call = StaleCall {
            cluster: ClusterId(7),
            sender: 2,
        };
        member.note_call(call);
        tokio::time::advance(CALL_AGE_MAX - Duration::from_millis(1)).await;
        assert_eq!(member.recent_call(), Some(call));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(member.recent_call(), None);
    }
}
