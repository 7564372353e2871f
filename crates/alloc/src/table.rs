//! The routing table this AllocSvr knows.

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use seqsvr_core::route::{Delta, Error, RoutingTable};
use seqsvr_proto::v1;
use tokio::sync::watch;

/// Newest routing table; readers never block.
pub(crate) struct Table {
    current: ArcSwapOption<RoutingTable>,
    update: Mutex<()>,
    version: watch::Sender<u64>,
}

impl Table {
    pub(crate) fn new() -> Table {
        Table {
            current: ArcSwapOption::empty(),
            update: Mutex::new(()),
            version: watch::Sender::new(0),
        }
    }

    /// The table now; None before the first was learnt.
    pub(crate) fn load(&self) -> Option<Arc<RoutingTable>> {
        self.current.load_full()
    }

    /// The same for a moment: cheaper, to be held across no await.
    pub(crate) fn guard(&self) -> Guard<Option<Arc<RoutingTable>>> {
        self.current.load()
    }

    /// Version now; 0 before the first.
    pub(crate) fn version(&self) -> u64 {
        *self.version.borrow()
    }

    /// Wakes at every newer version.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// Applies a delta; tells whether anything newer was learnt. A gap is an error: ask again with
    /// the version held.
    pub(crate) fn apply(&self, delta: Delta) -> Result<bool, Error> {
        let _one_at_a_time = self.update.lock();
        let next = match self.current.load().as_deref() {
            Some(table) => {
                let mut table = table.clone();
                if !table.apply(delta)? {
                    return Ok(false);
                }
                table
            }
            None => RoutingTable::new(delta)?,
        };
        let version = next.version();
        self.current.store(Some(Arc::new(next)));
        self.version.send_replace(version);
        Ok(true)
    }

    /// What a caller with a table of `version` misses; None if nothing, or if it wants none (0).
    pub(crate) fn routes_for(&self, version: u64) -> Option<v1::RoutingTable> {
        let table = self.current.load();
        let table = table.as_deref()?;
        (version != 0 && version < table.version())
            .then(|| v1::RoutingTable::from(&table.delta_since(version)))
    }
}
