//! The routing table of this client, and the highest epoch seen of each slot.
//!
//! Invariants: the version never falls; a table of another cluster is never mixed in; an epoch seen
//! is never forgotten. The epoch goes with the next request of that slot, so that an owner that was
//! deposed without noticing cannot answer behind its successor's back.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use seqsvr_core::id::{ClusterId, Slot};
use seqsvr_core::route::{Delta, Error, Owner, RoutingTable};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1;

use crate::pipe::Pipe;

/// The table at one version.
pub(crate) struct Known {
    pub(crate) table: Arc<RoutingTable>,
    /// Owners' addresses, each once.
    pub(crate) addresses: Vec<String>,
    /// Index of each slot's owner in `addresses`.
    owners: Box<[Option<u16>]>,
    /// The last used pipe to each address.
    pub(crate) pipes: Box<[ArcSwapOption<Pipe>]>,
}

impl Known {
    fn new(table: RoutingTable) -> Known {
        let owners = table.routes().filter_map(|(_, r)| r.owner.as_ref());
        let addresses: BTreeSet<&String> = owners.map(|o| &o.address).collect();
        let addresses: Vec<String> = addresses.into_iter().cloned().collect();
        let index = |owner: &Owner| addresses.binary_search(&owner.address).ok();
        let owners = table.routes().map(|(_, route)| {
            let index = route.owner.as_ref().and_then(index)?;
            u16::try_from(index).ok()
        });
        Known {
            owners: owners.collect(),
            pipes: addresses.iter().map(|_| ArcSwapOption::empty()).collect(),
            addresses,
            table: Arc::new(table),
        }
    }

    /// Returns the index of a slot's owner in `addresses`.
    pub(crate) fn owner(&self, slot: Slot) -> Option<usize> {
        let owner = self.owners.get(usize::from(slot.0)).copied().flatten();
        owner.map(usize::from)
    }
}

/// The error of a reply from another cluster: neither its table nor its numbers are ours.
#[derive(Debug)]
pub(crate) struct OtherCluster {
    pub(crate) ours: ClusterTag,
    pub(crate) theirs: ClusterTag,
}

impl OtherCluster {
    fn new(ours: ClusterId, theirs: ClusterId) -> OtherCluster {
        OtherCluster {
            ours: ClusterTag::of(ours),
            theirs: ClusterTag::of(theirs),
        }
    }
}

#[derive(Default)]
pub(crate) struct Table {
    known: ArcSwapOption<Known>,
    write: Mutex<()>,
    /// One epoch a slot; the number of slots is the cluster's and never changes.
    epochs: OnceLock<Box<[AtomicU64]>>,
    /// A delta did not fit: the full table is needed.
    gap: AtomicBool,
}

impl Table {
    pub(crate) fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// Returns the table for a moment: cheaper, not to be held across an await.
    pub(crate) fn guard(&self) -> Guard<Option<Arc<Known>>> {
        self.known.load()
    }

    /// Returns the tag of this client's cluster; none before the first table.
    pub(crate) fn cluster_tag(&self) -> ClusterTag {
        let known = self.guard();
        let known = known.as_ref();
        known.map_or(ClusterTag::NONE, |known| {
            ClusterTag::of(known.table.cluster())
        })
    }

    /// Returns whether a gap was met, and no call has fetched the full table since.
    pub(crate) fn has_gap(&self) -> bool {
        self.gap.load(Ordering::Relaxed)
    }

    /// Merges a table or delta. Returns whether anything newer was learned.
    pub(crate) fn learn(&self, wire: &v1::RoutingTable) -> Result<bool, OtherCluster> {
        let delta = match Delta::try_from(wire) {
            Ok(delta) => delta,
            Err(e) => {
                tracing::warn!(error = %e, "routing table ignored");
                return Ok(false);
            }
        };
        let _write = self.write.lock();
        let table = match self.known.load_full() {
            Some(known) => {
                let ours = known.table.cluster();
                if ours != delta.cluster {
                    return Err(OtherCluster::new(ours, delta.cluster));
                }
                if delta.version <= known.table.version() {
                    return Ok(false);
                }
                let mut table = RoutingTable::clone(&known.table);
                table.apply(delta).map(|newer| newer.then_some(table))
            }
            None if delta.base == 0 => RoutingTable::new(delta).map(Some),
            None => Err(Error::Gap {
                ours: 0,
                base: delta.base,
            }),
        };
        match table {
            Ok(Some(table)) => {
                self.epochs
                    .get_or_init(|| (0..table.slot_count()).map(|_| AtomicU64::new(0)).collect());
                self.known.store(Some(Arc::new(Known::new(table))));
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(Error::OtherCluster { ours, theirs }) => Err(OtherCluster::new(ours, theirs)),
            Err(Error::Gap { .. }) => {
                self.gap.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(e @ Error::NoSuchSlot(_)) => {
                tracing::warn!(error = %e, "routing table ignored");
                Ok(false)
            }
        }
    }

    /// Returns whether a gap was met since the last call; the first caller fetches the full table.
    pub(crate) fn take_gap(&self) -> bool {
        self.has_gap() && self.gap.swap(false, Ordering::Relaxed)
    }

    /// Notes that the full table could not be fetched: another call must fetch it.
    pub(crate) fn put_back_gap(&self) {
        self.gap.store(true, Ordering::Relaxed);
    }

    /// Returns the highest epoch seen of a slot; 0: none.
    pub(crate) fn epoch(&self, slot: Slot) -> u64 {
        let epoch = self.epochs.get().and_then(|e| e.get(usize::from(slot.0)));
        epoch.map_or(0, |e| e.load(Ordering::Acquire))
    }

    /// Notes the epoch that an answer carried.
    pub(crate) fn saw(&self, slot: Slot, epoch: u64) {
        if let Some(mine) = self.epochs.get().and_then(|e| e.get(usize::from(slot.0))) {
            // Mostly the epoch is unchanged.
            if mine.load(Ordering::Acquire) < epoch {
                mine.fetch_max(epoch, Ordering::AcqRel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use seqsvr_core::id::{Epoch, SessionId};
    use seqsvr_core::route::Route;

    use super::*;

    fn delta(cluster: u128, base: u64, version: u64, address: &str) -> v1::RoutingTable {
        let owner = Owner {
            session: SessionId(1),
            name: "a1".into(),
            address: address.into(),
        };
        let route = Route {
            epoch: Epoch(version),
            owner: Some(owner),
            version,
        };
        v1::RoutingTable::from(&Delta {
            cluster: ClusterId(cluster),
            base,
            version,
            slot_count: 4,
            namespaces: Vec::new(),
            routes: vec![(Slot(1), route)],
        })
    }

    #[test]
    fn learns_only_what_is_newer_and_ours() {
        let table = Table::default();
        assert!(!table.learn(&delta(1, 3, 4, "a:1")).unwrap());
        assert!(table.known().is_none() && table.take_gap());
        assert!(table.learn(&delta(1, 0, 4, "a:1")).unwrap());
        assert!(!table.learn(&delta(1, 0, 3, "b:1")).unwrap());
        assert!(table.learn(&delta(2, 0, 9, "b:1")).is_err());
        assert!(!table.learn(&delta(1, 6, 7, "b:1")).unwrap());
        assert!(table.take_gap() && !table.take_gap());
        assert_eq!(table.known().unwrap().addresses, ["a:1"]);
        assert!(table.learn(&delta(1, 4, 7, "b:1")).unwrap());
        assert_eq!(table.known().unwrap().addresses, ["b:1"]);
    }

    #[test]
    fn epochs_only_rise() {
        let table = Table::default();
        table.saw(Slot(1), 5);
        assert_eq!(table.epoch(Slot(1)), 0, "no table, no slots");
        table.learn(&delta(1, 0, 4, "a:1")).unwrap();
        table.saw(Slot(1), 5);
        table.saw(Slot(1), 3);
        assert_eq!((table.epoch(Slot(1)), table.epoch(Slot(2))), (5, 0));
    }
}
