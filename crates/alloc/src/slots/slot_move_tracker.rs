//! State of the slot moves of this AllocSvr.

use std::collections::HashSet;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use parking_lot::Mutex;
use seqsvr_core::id::{Epoch, Slot};
use tokio::sync::{RwLock, Semaphore};

/// Most slots being moved at one time.
const MOVES_IN_FLIGHT_MAX: usize = 32;

/// What goes on with slots of this node.
pub(crate) struct SlotMoveTracker {
    pub(super) permits: Semaphore,
    /// Planned moves that wait for a turn or are under way.
    pub(super) in_progress: Mutex<HashSet<(Slot, Epoch)>>,
    /// Held (shared) from before a slot is stopped until its finals are noted.
    pub(super) collecting: RwLock<()>,
    /// Wants no slots: told with every renewal.
    pub(super) is_draining: std::sync::atomic::AtomicBool,
    /// Slots the store planned for this session at the last renewal; `PLANNED_UNKNOWN` before the first one
    /// since `draining` changed.
    pub(super) planned_count: std::sync::atomic::AtomicU32,
}

/// Value of `planned_count` before a renewal has told it.
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

    /// Waits until every slot that is stopped has its finals noted. Whoever comes later must find
    /// the session gone.
    pub(crate) async fn wait_until_finals_recorded(&self) {
        let _none = self.collecting.write().await;
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Acquire)
    }

    /// For counters: (draining, planned by the store).
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
