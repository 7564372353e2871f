//! Raises the cluster's format level.
//!
//! Invariant: the level rises only while every member, learners included, says that it supports the
//! new one. No member is added or removed during that time. Schedule that breaks it: store 3 still
//! runs the older build. The entry that raises the level is committed by stores 1 and 2; store 3
//! cannot read it and never follows again. (Its build rejects the entry by its version, so nothing
//! diverges. But a rolling upgrade must not lose a store.)
//!
//! Until then every member writes and sends only what level 1 has, so a member may still return to
//! the older build.

use std::sync::Weak;
use std::time::Duration;

use seqsvr_core::command::{Batch, Command};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{NodeInner, RaftNode};

/// Interval at which a leader checks whether the level can be raised.
const LEVEL_CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time of one attempt; the next check repeats it.
const LEVEL_RAISE_TIMEOUT: Duration = Duration::from_secs(5);

impl RaftNode {
    /// Returns the newest format level that this node supports.
    pub fn level_max(&self) -> u32 {
        self.inner.identity_check.level_max()
    }

    /// Raises the level if this node leads and all members support a higher one.
    async fn raise_level(&self) {
        if self.leadership().borrow().ready_term.is_none() {
            return;
        }
        let Ok(_no_change) = self.inner.raise_lock.try_lock() else {
            return;
        };
        let Some(level) = self.next_level() else {
            return;
        };
        let batch = Batch {
            commands: vec![Command::SetLevel { level }],
        };
        match timeout(LEVEL_RAISE_TIMEOUT, self.propose(batch)).await {
            Ok(Ok(_)) => tracing::info!(level, "format level of the cluster raised"),
            Ok(Err(error)) => tracing::debug!(level, %error, "format level not raised yet"),
            Err(_) => tracing::debug!(level, "format level not raised yet: no quorum in time"),
        }
    }

    /// Returns the level that all members support, if it is above the cluster's.
    fn next_level(&self) -> Option<u32> {
        let now = self.with_state(|state| state.cluster().map(|_| state.format_level()))?;
        let mut common = self.level_max();
        let own = self.identity().node;
        for member in self.members().iter().filter(|m| m.id != own) {
            let peer = (member.id, member.incarnation);
            let age = self.inner.confirm_timeout;
            common = common.min(self.inner.network.peer_levels().recent_level(peer, age)?);
        }
        (common > now).then_some(common)
    }
}

/// Raises the level whenever this node leads and can, until it stops.
pub(super) async fn run_level_raiser(node: Weak<NodeInner>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(LEVEL_CHECK_INTERVAL) => {}
        }
        let Some(inner) = node.upgrade() else { return };
        let node = RaftNode { inner };
        tokio::select! {
            () = stop.cancelled() => return,
            () = node.raise_level() => {}
        }
    }
}
