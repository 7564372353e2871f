//! State of the slot moves of this AllocSvr.

use std::collections::HashSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use parking_lot::Mutex;
use seqsvr_core::ids::{Epoch, Slot};
use tokio::sync::{RwLock, Semaphore};

/// Maximum slots being moved at a time; above it moves wait.
const MOVES_IN_FLIGHT_MAX: usize = 32;

/// State of the slot moves of this node.
pub(crate) struct SlotMoveTracker {
    pub(super) permits: Semaphore,
    /// Planned moves that wait for a permit or are in progress.
    pub(super) in_progress: Mutex<HashSet<(Slot, Epoch)>>,
    /// Held (shared) from before a slot is frozen until its high-water marks are recorded.
    pub(super) collecting: RwLock<()>,
    /// Whether the node drains: it should get no slots. Sent with every renewal.
    pub(super) is_draining: std::sync::atomic::AtomicBool,
    /// Number of slots that the store planned to move from this session at the last renewal;
    /// `PLANNED_UNKNOWN` before the first one since `is_draining` changed.
    pub(super) planned_count: std::sync::atomic::AtomicU32,
}

/// Value of `planned_count` before a renewal has reported it.
pub(super) const PLANNED_UNKNOWN: u32 = u32::MAX;

impl SlotMoveTracker {
    pub(crate) fn new() -> SlotMoveTracker {
        SlotMoveTracker {
            permits: Semaphore::new(MOVES_IN_FLIGHT_MAX),
            in_progress: Mutex::default(),
            collecting: RwLock::new(()),
            is_draining: false.into(),
            planned_count: PLANNED_UNKNOWN.into(),
        }
    }

    /// Waits until every frozen slot has its high-water marks recorded. Moves that come later must
    /// find that the session has ended.
    pub(crate) async fn wait_until_high_water_marks_recorded(&self) {
        let _none = self.collecting.write().await;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Acquire)
    }

    /// Returns whether the node drains, and the number of planned moves, for metrics.
    pub(crate) fn plan(&self) -> (bool, u32) {
        let planned = self.planned_count.load(Relaxed);
        (
            self.is_draining(),
            if planned == PLANNED_UNKNOWN {
                0
            } else {
                planned
            },
        )
    }
}
