//! Keeps a leader from building a snapshot while it sends one, and from sending while it builds.
//!
//! Invariant: while a follower installs a snapshot, the leader's log reaches back to that snapshot,
//! so the follower continues with entries. Schedule that breaks it: an install takes three minutes
//! at 500 entries a second; the leader builds four snapshots in this time and purges its log up to
//! the newest one but 5,000 entries. The entry behind the installed snapshot is gone, so the leader
//! sends the newest snapshot; and the follower never catches up. The log is purged only behind a
//! newer snapshot. So while one is sent, no newer one is built, and while one is built, none is
//! sent.
//!
//! The log stays bounded: after [`FORCED_BUILD_FACTOR`] times the usual number of entries a
//! snapshot is built in any case. Until then an install may take about ten minutes at 500 entries a
//! second.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Factor of the usual entries after which a snapshot is built, even while one is being sent.
pub(crate) const FORCED_BUILD_FACTOR: u64 = 16;
/// Time after a send that was cut off in which the next one is expected. A receiver that lost its
/// sender finishes its install, and the next attempt finds it done.
const RESEND_TIMEOUT: Duration = Duration::from_secs(10);

/// The turns of building and sending snapshots.
#[derive(Clone, Default)]
pub(crate) struct SnapshotTurns(Arc<Mutex<TurnState>>);

#[derive(Default)]
struct TurnState {
    builds: usize,
    sends: usize,
    /// End of the last send that a peer had taken part in.
    last_send_end: Option<Instant>,
}

impl SnapshotTurns {
    /// Begins to build a snapshot, unless one is being sent.
    pub(crate) fn try_build(&self) -> Option<BuildTurn> {
        let mut turns = self.0.lock();
        let recently = turns
            .last_send_end
            .is_some_and(|at| at.elapsed() < RESEND_TIMEOUT);
        if turns.sends > 0 || recently {
            return None;
        }
        turns.builds += 1;
        Some(BuildTurn(self.clone()))
    }

    /// Begins to build a snapshot, whether or not one is being sent.
    pub(crate) fn force_build(&self) -> BuildTurn {
        self.0.lock().builds += 1;
        BuildTurn(self.clone())
    }

    /// Begins to send a snapshot, unless a newer one is being built.
    pub(crate) fn try_send(&self) -> Option<SendTurn> {
        let mut turns = self.0.lock();
        if turns.builds > 0 {
            return None;
        }
        turns.sends += 1;
        Some(SendTurn {
            turns: self.clone(),
            is_peer_active: false,
        })
    }
}

/// Turn of a snapshot that is being built.
pub(crate) struct BuildTurn(SnapshotTurns);

impl Drop for BuildTurn {
    fn drop(&mut self) {
        self.0.0.lock().builds -= 1;
    }
}

/// Turn of a snapshot that is being sent.
pub(crate) struct SendTurn {
    turns: SnapshotTurns,
    is_peer_active: bool,
}

impl SendTurn {
    /// Notes that the peer takes part. A peer that is down must not delay snapshots.
    pub(crate) fn mark_peer_active(&mut self) {
        self.is_peer_active = true;
    }
}

impl Drop for SendTurn {
    fn drop(&mut self) {
        let mut turns = self.turns.0.lock();
        turns.sends -= 1;
        if self.is_peer_active {
            turns.last_send_end = Some(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshot_builds_and_sends_take_turns() {
        let turns = SnapshotTurns::default();
        let build = turns.try_build().unwrap();
        assert!(turns.try_send().is_none());
        drop(build);
        let mut first = turns.try_send().unwrap();
        let second = turns.try_send().unwrap();
        assert!(turns.try_build().is_none());
        drop(second);
        assert!(turns.try_build().is_none());
        first.mark_peer_active();
        drop(first);
        // The next attempt may come.
        assert!(turns.try_build().is_none());
        let long_ago = Instant::now().checked_sub(RESEND_TIMEOUT);
        turns.0.lock().last_send_end = Some(long_ago.unwrap());
        assert!(turns.try_build().is_some());
        // A peer that is down delays nothing.
        drop(turns.try_send().unwrap());
        assert!(turns.try_build().is_some());
        // A snapshot that must be built is built, and none is sent at the same time.
        let send = turns.try_send().unwrap();
        let build = turns.force_build();
        assert!(turns.try_send().is_none());
        drop((send, build));
        assert!(turns.try_send().is_some());
    }
}
