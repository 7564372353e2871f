//! State that all callers of a run share, and the items of a call.

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use seqsvr_client::Error;
use tokio::time::Instant;

use crate::key_set::KeySet;
use crate::pacer::Pacer;
use crate::settings::CallMode;
use crate::verifier::Verifier;

/// State that all callers of a run share.
pub(crate) struct RunState {
    pub(crate) mode: CallMode,
    /// Items of a call.
    pub(crate) batch: u32,
    /// Numbers an item takes.
    pub(crate) count: u32,
    pub(crate) keys: KeySet,
    pub(crate) pacer: Pacer,
    pub(crate) verifier: Verifier,
    /// Violations of order or uniqueness as text; the first few.
    pub(crate) violations: Mutex<Vec<String>>,
    /// Error that says that the servers belong to another cluster now. It ends the run.
    pub(crate) cluster_mismatch: Mutex<Option<Error>>,
    /// Start of the run: all times count from here.
    pub(crate) origin: Instant,
}

impl RunState {
    /// Draws the keys of one call. All are of the namespace whose first key is `first_key`.
    pub(crate) fn draw_items(&self, first_key: u32, rng: &mut SmallRng, items: &mut CallItems) {
        let CallItems {
            keys,
            greatest_before,
        } = items;
        keys.clear();
        keys.extend((0..self.batch).map(|_| first_key + self.keys.draw_key(rng)));
        greatest_before.clear();
        if self.mode == CallMode::Current {
            greatest_before.extend(keys.iter().map(|key| self.verifier.greatest_received(*key)));
        }
    }

    /// Returns the nanoseconds since the start of the run.
    pub(crate) fn nanos_at(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.origin).as_nanos() as u64
    }
}

/// Items of a call. They are columns to save memory: thousands of calls are in flight.
#[derive(Default)]
pub(crate) struct CallItems {
    pub(crate) keys: Vec<u32>,
    /// For `current`: the greatest number of each key that was received before the call began.
    pub(crate) greatest_before: Vec<u64>,
}

impl CallItems {
    /// Copies some of the items.
    pub(crate) fn copy_items(&self, indexes: impl Iterator<Item = usize>) -> CallItems {
        let mut copy = CallItems::default();
        for i in indexes {
            copy.keys.push(self.keys[i]);
            copy.greatest_before.extend(self.greatest_before.get(i));
        }
        copy
    }
}
