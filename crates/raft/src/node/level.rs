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

use super::{Inner, Node};

/// Interval at which a leader checks whether the level can be raised.
const LEVEL_POLL: Duration = Duration::from_millis(500);
/// Longest time of one attempt; the next check repeats it.
const LEVEL_WAIT: Duration = Duration::from_secs(5);

impl Node {
    /// Returns the newest format level that this node supports.
    pub fn level_max(&self) -> u32 {
        self.inner.gate.level_max()
    }

    /// Raises the level if this node leads and all members support a higher one.
    async fn raise_level(&self) {
        if self.leadership().borrow().ready_term.is_none() {
            return;
        }
        let Ok(_no_change) = self.inner.raising.try_lock() else {
            return;
        };
        let Some(level) = self.level_to_set() else {
            return;
        };
        let batch = Batch {
            commands: vec![Command::SetLevel { level }],
        };
        match timeout(LEVEL_WAIT, self.propose(batch)).await {
            Ok(Ok(_)) => tracing::info!(level, "format level of the cluster raised"),
            Ok(Err(error)) => tracing::debug!(level, %error, "format level not raised yet"),
            Err(_) => tracing::debug!(level, "format level not raised yet: no quorum in time"),
        }
    }

    /// Returns the level that all members support, if it is above the cluster's.
    fn level_to_set(&self) -> Option<u32> {
        let now = self.with_state(|state| state.cluster().map(|_| state.level()))?;
        let mut common = self.level_max();
        let own = self.identity().node;
        for member in self.members().iter().filter(|m| m.id != own) {
            let peer = (member.id, member.incarnation);
            let age = self.inner.confirm_wait;
            common = common.min(self.inner.network.levels().get(peer, age)?);
        }
        (common > now).then_some(common)
    }
}

/// Raises the level whenever this node leads and can, until it stops.
pub(super) async fn keep_raising(node: Weak<Inner>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = sleep(LEVEL_POLL) => {}
        }
        let Some(inner) = node.upgrade() else { return };
        let node = Node { inner };
        tokio::select! {
            () = stop.cancelled() => return,
            () = node.raise_level() => {}
        }
    }
}
