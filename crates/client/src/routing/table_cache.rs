//! Routing table of a client, and the highest epoch seen of each slot.
//!
//! Invariants: the version never falls; a table of another cluster is never mixed in; an epoch seen
//! is never forgotten. The next request of that slot carries the epoch, so that a former owner that
//! does not yet have the new table cannot answer after its successor did.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use seqsvr_core::ids::{ClusterId, Slot};
use seqsvr_core::routing_table::{RoutingDelta, RoutingTable, RoutingUpdateError, SlotOwner};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1;

use crate::routing::jump_check::VERSION_JUMP_MAX;

/// Routing table at one version, indexed for calls.
pub(crate) struct TableSnapshot<C> {
    pub(crate) table: Arc<RoutingTable>,
    /// Owners' addresses, each once.
    pub(crate) addresses: Vec<String>,
    /// Index of each slot's owner in `addresses`.
    owner_indexes: Box<[Option<u16>]>,
    /// Place for a connection to each address.
    pub(crate) connections: Box<[C]>,
}

impl<C: Default> TableSnapshot<C> {
    fn new(table: RoutingTable) -> TableSnapshot<C> {
        let owners = table.routes().filter_map(|(_, r)| r.owner.as_ref());
        let addresses: BTreeSet<&String> = owners.map(|o| &o.address).collect();
        let addresses: Vec<String> = addresses.into_iter().cloned().collect();
        let index = |owner: &SlotOwner| addresses.binary_search(&owner.address).ok();
        let owner_indexes = table.routes().map(|(_, route)| {
            let index = route.owner.as_ref().and_then(index)?;
            u16::try_from(index).ok()
        });
        TableSnapshot {
            owner_indexes: owner_indexes.collect(),
            connections: addresses.iter().map(|_| C::default()).collect(),
            addresses,
            table: Arc::new(table),
        }
    }

    /// Returns the index of a slot's owner in `addresses`.
    pub(crate) fn owner_index(&self, slot: Slot) -> Option<usize> {
        let owner = self
            .owner_indexes
            .get(usize::from(slot.0))
            .copied()
            .flatten();
        owner.map(usize::from)
    }
}

/// Error of a reply from another cluster: its table and its numbers must not be used.
#[derive(Debug)]
pub(crate) struct ForeignCluster {
    pub(crate) ours: ClusterTag,
    pub(crate) theirs: ClusterTag,
}

impl ForeignCluster {
    fn new(ours: ClusterId, theirs: ClusterId) -> ForeignCluster {
        ForeignCluster {
            ours: ClusterTag::from_cluster_id(ours),
            theirs: ClusterTag::from_cluster_id(theirs),
        }
    }
}

/// Newest routing table, and the highest epochs seen. `C` keeps a connection to each owner.
#[derive(Default)]
pub(crate) struct TableCache<C> {
    snapshot: ArcSwapOption<TableSnapshot<C>>,
    update_lock: Mutex<()>,
    /// One epoch a slot; the number of slots is the cluster's and never changes.
    epochs: OnceLock<Box<[AtomicU64]>>,
    /// A delta did not fit: the client must fetch the full table.
    missed_update: AtomicBool,
}

impl<C: Default> TableCache<C> {
    pub(crate) fn snapshot(&self) -> Option<Arc<TableSnapshot<C>>> {
        self.snapshot.load_full()
    }

    /// Returns the table without a reference count; must not be held across an await.
    pub(crate) fn snapshot_guard(&self) -> Guard<Option<Arc<TableSnapshot<C>>>> {
        self.snapshot.load()
    }

    /// Returns the tag of this client's cluster; none before the first table.
    pub(crate) fn cluster_tag(&self) -> ClusterTag {
        let snapshot = self.snapshot_guard();
        let snapshot = snapshot.as_ref();
        snapshot.map_or(ClusterTag::NONE, |snapshot| {
            ClusterTag::from_cluster_id(snapshot.table.cluster())
        })
    }

    /// Returns whether a delta did not fit, and no call has begun to fetch the full table since.
    pub(crate) fn has_missed_update(&self) -> bool {
        self.missed_update.load(Ordering::Relaxed)
    }

    /// Merges a table or delta. Returns whether it was newer. `may_jump` decides about a version
    /// far above: see [`crate::routing::jump_check`].
    ///
    /// # Errors
    /// The table is that of another cluster.
    pub(crate) fn apply_update(
        &self,
        wire: &v1::RoutingTable,
        may_jump: impl FnOnce() -> bool,
    ) -> Result<bool, ForeignCluster> {
        let delta = match RoutingDelta::try_from(wire) {
            Ok(delta) => delta,
            Err(e) => {
                tracing::warn!(error = %e, "ignoring invalid routing table");
                return Ok(false);
            }
        };
        let _update = self.update_lock.lock();
        let table = match self.snapshot.load_full() {
            Some(snapshot) => {
                let ours = snapshot.table.cluster();
                if ours != delta.cluster {
                    return Err(ForeignCluster::new(ours, delta.cluster));
                }
                if delta.version <= snapshot.table.version() {
                    return Ok(false);
                }
                let is_jump = delta.version - snapshot.table.version() > VERSION_JUMP_MAX;
                if is_jump && !may_jump() {
                    tracing::warn!(
                        version = delta.version,
                        ours = snapshot.table.version(),
                        "routing table set aside: its version is far above; another server must confirm it"
                    );
                    return Ok(false);
                }
                let mut table = RoutingTable::clone(&snapshot.table);
                table.apply_delta(delta).map(|newer| newer.then_some(table))
            }
            None if delta.base == 0 => RoutingTable::new(delta).map(Some),
            None => Err(RoutingUpdateError::MissingVersions {
                ours: 0,
                base: delta.base,
            }),
        };
        match table {
            Ok(Some(table)) => {
                self.epochs
                    .get_or_init(|| (0..table.slot_count()).map(|_| AtomicU64::new(0)).collect());
                self.snapshot
                    .store(Some(Arc::new(TableSnapshot::new(table))));
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(RoutingUpdateError::OtherCluster { ours, theirs }) => {
                Err(ForeignCluster::new(ours, theirs))
            }
            Err(RoutingUpdateError::MissingVersions { .. }) => {
                self.missed_update.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(
                e @ (RoutingUpdateError::SlotNotFound(_)
                | RoutingUpdateError::VersionOutOfRange(_)
                | RoutingUpdateError::RowNewerThanTable { .. }),
            ) => {
                tracing::warn!(error = %e, "ignoring invalid routing table");
                Ok(false)
            }
        }
    }

    /// Clears the mark of a missed update and returns whether there was one: that caller must fetch
    /// the full table.
    pub(crate) fn take_missed_update(&self) -> bool {
        self.has_missed_update() && self.missed_update.swap(false, Ordering::Relaxed)
    }

    /// Sets the mark: the next call must fetch the full table.
    pub(crate) fn mark_missed_update(&self) {
        self.missed_update.store(true, Ordering::Relaxed);
    }

    /// Returns the highest epoch seen of a slot; 0: none.
    pub(crate) fn epoch_seen(&self, slot: Slot) -> u64 {
        let epoch = self.epochs.get().and_then(|e| e.get(usize::from(slot.0)));
        epoch.map_or(0, |e| e.load(Ordering::Acquire))
    }

    /// Records the epoch that an answer carried.
    pub(crate) fn observe_epoch(&self, slot: Slot, epoch: u64) {
        if let Some(seen) = self.epochs.get().and_then(|e| e.get(usize::from(slot.0))) {
            // Mostly the epoch is unchanged.
            if seen.load(Ordering::Acquire) < epoch {
                seen.fetch_max(epoch, Ordering::AcqRel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_core::ids::{Epoch, SessionId};
    use seqsvr_core::routing_table::Route;

    use super::*;

    fn table_delta(cluster: u128, base: u64, version: u64, address: &str) -> v1::RoutingTable {
        let owner = SlotOwner {
            session: SessionId(1),
            name: "a1".into(),
            address: address.into(),
        };
        let route = Route {
            epoch: Epoch(version),
            owner: Some(owner),
            version,
        };
        v1::RoutingTable::from(&RoutingDelta {
            cluster: ClusterId(cluster),
            base,
            version,
            slot_count: 4,
            namespaces: Vec::new(),
            routes: vec![(Slot(1), route)],
        })
    }

    fn apply(table: &TableCache<()>, wire: &v1::RoutingTable) -> Result<bool, ForeignCluster> {
        table.apply_update(wire, || true)
    }

    #[test]
    fn table_update_is_applied_only_if_newer_and_of_own_cluster() {
        let table = TableCache::<()>::default();
        assert!(!apply(&table, &table_delta(1, 3, 4, "a:1")).unwrap());
        assert!(table.snapshot().is_none() && table.take_missed_update());
        assert!(apply(&table, &table_delta(1, 0, 4, "a:1")).unwrap());
        assert!(!apply(&table, &table_delta(1, 0, 3, "b:1")).unwrap());
        assert!(apply(&table, &table_delta(2, 0, 9, "b:1")).is_err());
        assert!(!apply(&table, &table_delta(1, 6, 7, "b:1")).unwrap());
        assert!(table.take_missed_update() && !table.take_missed_update());
        assert_eq!(table.snapshot().unwrap().addresses, ["a:1"]);
        assert!(apply(&table, &table_delta(1, 4, 7, "b:1")).unwrap());
        assert_eq!(table.snapshot().unwrap().addresses, ["b:1"]);
    }

    #[test]
    fn epoch_seen_never_falls() {
        let table = TableCache::<()>::default();
        table.observe_epoch(Slot(1), 5);
        assert_eq!(table.epoch_seen(Slot(1)), 0, "no table, no slots");
        apply(&table, &table_delta(1, 0, 4, "a:1")).unwrap();
        table.observe_epoch(Slot(1), 5);
        table.observe_epoch(Slot(1), 3);
        assert_eq!(
            (table.epoch_seen(Slot(1)), table.epoch_seen(Slot(2))),
            (5, 0)
        );
    }
}
