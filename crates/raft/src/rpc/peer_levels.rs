//! Format levels that the other members support, as their answers say.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::types::PeerId;

/// Newest answer of each peer about the level it supports. Peers come from the membership, so the
/// map is bounded by the size of the membership over time.
#[derive(Default)]
pub(crate) struct PeerLevels(Mutex<HashMap<PeerId, (u32, Instant)>>);

impl PeerLevels {
    /// Notes an answer; level 0 is what a build of level 1 answers.
    pub(crate) fn record_answer(&self, peer: PeerId, level: u32) {
        let entry = (level.max(1), Instant::now());
        self.0.lock().insert(peer, entry);
    }

    /// Returns the level that a peer supports, if it has answered within `age`. An older answer
    /// does not count: the peer may have been started again with an older build.
    pub(crate) fn recent_level(&self, peer: PeerId, age: Duration) -> Option<u32> {
        let known = self.0.lock().get(&peer).copied();
        known.and_then(|(level, at)| (at.elapsed() < age).then_some(level))
    }
}
