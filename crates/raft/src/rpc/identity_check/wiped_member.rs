//! Remembers that a living cluster calls this node as a member on another data directory.
//!
//! Invariant: an empty directory under the id and address of a member makes no cluster while the
//! cluster of that member lives. Schedule that breaks it: one of three stores loses its directory,
//! and an operator runs `init` with that store alone to get it back. A second cluster begins at the
//! address of the first one and gives its numbers again.

use std::time::Duration;

use seqsvr_core::ids::ClusterId;
use tokio::time::Instant;

/// Time after the last such call for which the cluster counts as living. A leader calls a member
/// that rejects it several times in a second.
const CALL_AGE_MAX: Duration = Duration::from_secs(5);

/// The last call that named this node with the incarnation of another directory.
#[derive(Default)]
pub(crate) struct WipedMember(parking_lot::Mutex<Option<(ClusterId, Instant)>>);

impl WipedMember {
    /// Notes a call of this cluster.
    pub(crate) fn note_call(&self, cluster: ClusterId) {
        *self.0.lock() = Some((cluster, Instant::now()));
    }

    /// Returns the cluster whose members call this node; None if none did in that time.
    pub(crate) fn calling_cluster(&self) -> Option<ClusterId> {
        let (cluster, called) = (*self.0.lock())?;
        (called.elapsed() < CALL_AGE_MAX).then_some(cluster)
    }
}
