//! Routing table of a client, and the highest epoch seen of each slot.
//!
//! Invariants: the version falls only below what one server alone has sent (`table_origin`); a
//! table of another cluster is never mixed in; an epoch seen is lowered only to one that a store
//! has confirmed since a request with the seen one was sent. The next request of that slot carries
//! the epoch, so that a former owner that does not yet have the new table cannot answer after its
//! successor did.
//!
//! Schedules that break the last one, and what prevents each:
//! - *A false epoch is kept.* One server answers once with epoch 10^6. Every later call of the slot
//!   carries it, and every true owner rejects it as FLOOR_AHEAD. So the owner names its own epoch,
//!   which a store confirmed after the request arrived, and the client continues with that.
//! - *A true epoch is forgotten.* The caller's floor is wrong, and the table is old. FLOOR_AHEAD
//!   came because of the floor. If the epoch were dropped, the former owner by that table could
//!   answer with a lower number. An epoch at or below the confirmed one stays; one above that the
//!   request named was never issued, because epochs do not fall, so no owner of it has answered.
//! - *A late answer meets a newer epoch.* A store confirms epoch 5, and the answer is delayed. A
//!   successor answers at epoch 6. That one is above the confirmed one and was issued since, but
//!   the request did not name it: it stays.
//! - *A cluster lost its newest epochs*, because an operator put back an old copy. The table of the
//!   client has the epoch as well, and the error stays an error.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use seqsvr_core::geometry::SLOTS_MAX;
use seqsvr_core::ids::{ClusterId, Slot};
use seqsvr_core::routing_table::{RoutingDelta, RoutingTable, RoutingUpdateError, SlotOwner};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1;

use crate::routing::jump_check::VERSION_JUMP_MAX;
use crate::routing::table_origin::TableOrigin;

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
        let owner = *self.owner_indexes.get(usize::from(slot.0))?;
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

/// What a confirmed epoch says about the epoch seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochVerdict {
    /// The epoch of the request was above it, and is the epoch seen no more.
    Dropped,
    /// The epoch of the request is above it, and so is that of the table.
    TableDisagrees,
    /// The epoch of the request is not above it.
    NotAbove,
}

/// Newest routing table, and the highest epochs seen. `C` keeps a connection to each owner.
#[derive(Default)]
pub(crate) struct TableCache<C> {
    /// Cluster of this client; set once, at the latest by the first table.
    cluster: OnceLock<ClusterId>,
    snapshot: ArcSwapOption<TableSnapshot<C>>,
    /// Held while the table changes.
    origin: Mutex<TableOrigin>,
    /// One epoch a slot, for as many slots as a cluster may have: the first table may be false.
    epochs: OnceLock<Box<[AtomicU64]>>,
    /// A delta did not fit: the client must fetch the full table.
    missed_update: AtomicBool,
    /// The client should fetch the full table from another server than the one that sent the last.
    needs_second_opinion: AtomicBool,
}

impl<C: Default> TableCache<C> {
    pub(crate) fn snapshot(&self) -> Option<Arc<TableSnapshot<C>>> {
        self.snapshot.load_full()
    }

    /// Returns the table without a reference count; must not be held across an await.
    pub(crate) fn snapshot_guard(&self) -> Guard<Option<Arc<TableSnapshot<C>>>> {
        self.snapshot.load()
    }

    /// Returns the tag of this client's cluster; none before it is decided.
    pub(crate) fn cluster_tag(&self) -> ClusterTag {
        let cluster = self.cluster.get().copied();
        cluster.map_or(ClusterTag::NONE, ClusterTag::from_cluster_id)
    }

    /// Returns whether the cluster of this client is decided.
    pub(crate) fn has_cluster(&self) -> bool {
        self.cluster.get().is_some()
    }

    /// Decides the cluster of this client, for its lifetime.
    ///
    /// # Errors
    /// It is decided, and is another one.
    pub(crate) fn decide_cluster(&self, cluster: ClusterId) -> Result<(), ForeignCluster> {
        let ours = *self.cluster.get_or_init(|| cluster);
        match ours == cluster {
            true => Ok(()),
            false => Err(ForeignCluster::new(ours, cluster)),
        }
    }

    /// Returns whether a delta did not fit or the table is doubted, and no call has begun to fetch
    /// the full table since.
    pub(crate) fn has_missed_update(&self) -> bool {
        self.missed_update.load(Ordering::Relaxed)
            || self.needs_second_opinion.load(Ordering::Relaxed)
    }

    /// Merges a table or delta from the server at `address`. Returns whether the table changed.
    /// `may_jump` decides about a version far above: see [`crate::routing::jump_check`].
    ///
    /// # Errors
    /// The table is that of another cluster.
    pub(crate) fn apply_update(
        &self,
        address: &str,
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
        let mut origin = self.origin.lock();
        if let Some(ours) = self.cluster.get().filter(|ours| **ours != delta.cluster) {
            return Err(ForeignCluster::new(*ours, delta.cluster));
        }
        let snapshot = self.snapshot.load_full();
        let our_version = snapshot.as_ref().map_or(0, |known| known.table.version());
        let table = match snapshot {
            Some(snapshot) => {
                let replaces = origin.may_replace(address, our_version, &delta);
                if delta.version <= our_version && !replaces {
                    return Ok(false);
                }
                let is_jump = delta.version.saturating_sub(our_version) > VERSION_JUMP_MAX;
                if is_jump && !may_jump() {
                    tracing::warn!(
                        version = delta.version,
                        ours = our_version,
                        "routing table set aside: its version is far above; another server must confirm it"
                    );
                    return Ok(false);
                }
                match replaces {
                    true => RoutingTable::new(delta).map(|table| {
                        let is_same = table == *snapshot.table;
                        origin.settle(address, our_version, is_same);
                        (!is_same).then_some(table)
                    }),
                    false => {
                        let mut table = RoutingTable::clone(&snapshot.table);
                        table.apply_delta(delta).map(|newer| newer.then_some(table))
                    }
                }
            }
            None if delta.base == 0 => RoutingTable::new(delta).map(Some),
            None => Err(RoutingUpdateError::MissingVersions {
                ours: 0,
                base: delta.base,
            }),
        };
        match table {
            Ok(Some(table)) => {
                self.decide_cluster(table.cluster())?;
                self.epochs
                    .get_or_init(|| (0..SLOTS_MAX).map(|_| AtomicU64::new(0)).collect());
                if table.version() < our_version {
                    tracing::warn!(
                        version = table.version(),
                        ours = our_version,
                        claimant = origin.claimant(),
                        "routing table replaced by that of another server: one server alone had sent it, and calls contradicted it"
                    );
                }
                origin.record_applied(address, our_version);
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

    /// Requests that the next call fetches the full table from another server.
    pub(crate) fn request_second_opinion(&self) {
        self.needs_second_opinion.store(true, Ordering::Relaxed);
    }

    /// Clears that request and returns whether there was one.
    pub(crate) fn take_second_opinion(&self) -> bool {
        self.needs_second_opinion.load(Ordering::Relaxed)
            && self.needs_second_opinion.swap(false, Ordering::Relaxed)
    }

    /// Records that a call contradicted the table: the owner that it names did not answer, sent the
    /// call on, or named a lower epoch.
    pub(crate) fn note_contradiction(&self) {
        let version = self.snapshot_guard().as_ref().map(|s| s.table.version());
        if version.is_some_and(|version| self.origin.lock().record_contradiction(version)) {
            self.request_second_opinion();
        }
    }

    /// Returns the server that alone has sent the table, if the table is doubted.
    pub(crate) fn doubted_server(&self) -> Option<String> {
        self.origin.lock().doubted_server()
    }

    /// Lowers the epoch seen of a slot from the one that a request named to the one that a store
    /// has confirmed since, unless the table has a higher one as well.
    pub(crate) fn contradict_epoch(
        &self,
        slot: Slot,
        requested: u64,
        confirmed: u64,
    ) -> EpochVerdict {
        let seen = self.epochs.get().and_then(|e| e.get(usize::from(slot.0)));
        let in_table = self
            .snapshot_guard()
            .as_ref()
            .and_then(|s| s.table.route(slot).map(|r| r.epoch.0));
        let Some(seen) = seen.filter(|_| requested > confirmed) else {
            return EpochVerdict::NotAbove;
        };
        if in_table.is_some_and(|epoch| epoch > confirmed) {
            return EpochVerdict::TableDisagrees;
        }
        // An epoch that another answer has brought since stays.
        let lowered =
            seen.compare_exchange(requested, confirmed, Ordering::AcqRel, Ordering::Acquire);
        if lowered.is_ok() {
            tracing::warn!(
                %slot,
                epoch = requested,
                confirmed,
                "epoch dropped: a store confirmed a lower one, and the routing table has none above it"
            );
        }
        EpochVerdict::Dropped
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
mod tests;
