//! The loaded sections of this AllocSvr: publishes and retires them, and makes opens and closes
//! exclusive.
//!
//! Invariants:
//! - an older section object is sealed before a newer one is published, and an answer for an
//!   installed or older generation is ignored, so at most one object of a section hands out
//!   numbers;
//! - nothing is published for a session that has ended: ending and publishing share a lock.

mod frozen_slots;

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use seize::Collector;
use seqsvr_core::command::Fence;
use seqsvr_core::geometry::Geometry;
use seqsvr_core::ids::{Epoch, SectionKey, Slot};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::routing_table::RoutingTable;
use seqsvr_core::section::{Section, SectionGrant};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{self, Reason, SectionHighWaterMark};
use tokio::sync::watch;

use crate::sections::loaded_section::LoadedSection;
use crate::sections::lookup_cache::LookupCaches;
use crate::sections::section_hash::SectionHashBuilder;
use crate::session::leased_session::LeasedSession;
use crate::store_client::unavailable::shutting_down_error;

/// Maximum number of sections whose last generation is remembered; above it all are forgotten.
const GENERATIONS_MAX: usize = 100_000;

/// Result of an open or a close; None while it is in progress.
pub(crate) type TransitionResult = Option<Result<(), RpcError>>;

/// Receiver of the result of an open or a close that is in progress.
type TransitionReceiver = watch::Receiver<TransitionResult>;

/// Map of loaded sections.
pub(crate) struct SectionMap {
    /// Looked up without locks. Changed only under `transitions`; `caches` forgets each section
    /// that leaves it.
    pub(crate) map: papaya::HashMap<SectionKey, Arc<LoadedSection>, SectionHashBuilder>,
    /// Opens and closes in progress. Its lock is also that under which objects are published and
    /// removed.
    pub(crate) transitions: Mutex<SectionTransitions>,
    /// Sections found in the map recently.
    pub(crate) caches: LookupCaches,
    /// Secret of this process, so that no client can choose keys that collide.
    hash_key: [u64; 2],
}

/// Pinned view of the loaded sections: no section is freed while it is held.
pub(crate) type PinnedSections<'a> = papaya::HashMapRef<
    'a,
    SectionKey,
    Arc<LoadedSection>,
    SectionHashBuilder,
    papaya::LocalGuard<'a>,
>;

/// Opens and closes in progress, and what they leave behind.
#[derive(Default)]
pub(crate) struct SectionTransitions {
    /// Sections being opened or closed, with their slots.
    pub(crate) in_progress: HashMap<SectionKey, (Slot, TransitionReceiver)>,
    /// Slots frozen for a move, with the epoch at which they were frozen: none of their sections is
    /// opened at it again.
    pub(crate) frozen: HashMap<Slot, Epoch>,
    /// Closes without an answer. A move of their slot carries their high-water marks.
    pub(crate) unconfirmed_closes: HashMap<SectionKey, SectionHighWaterMark>,
    /// Last generations of sections that were loaded here, with the epoch at which they were
    /// loaded.
    generations: HashMap<SectionKey, (Epoch, u64)>,
}

impl SectionMap {
    /// Creates an empty map. `hash_key`: a random secret of this process.
    pub(crate) fn new(hash_key: [u64; 2]) -> SectionMap {
        // A simulation has one thread on every machine.
        let threads = match cfg!(sim) {
            true => 1,
            false => std::thread::available_parallelism().map_or(1, usize::from),
        };
        SectionMap {
            caches: LookupCaches::new(threads),
            // Frees closed sections one by one. A batch of them would keep counters that other
            // sections wait for.
            map: papaya::HashMap::builder()
                .hasher(SectionHashBuilder(hash_key))
                .collector(Collector::new().batch_size(1))
                .build(),
            transitions: Mutex::default(),
            hash_key,
        }
    }

    /// Pins the loaded sections. Hold the view across no await.
    pub(crate) fn pin(&self) -> PinnedSections<'_> {
        self.map.pin()
    }

    pub(crate) fn get(&self, key: SectionKey) -> Option<Arc<LoadedSection>> {
        self.map.pin().get(&key).cloned()
    }

    /// Returns all loaded sections.
    pub(crate) fn all(&self) -> Vec<Arc<LoadedSection>> {
        self.map.pin().values().cloned().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }

    /// Seals an object and removes it, if it is still the one installed. Returns whether it was.
    pub(crate) fn retire(&self, loaded: &Arc<LoadedSection>) -> bool {
        let removed = {
            let _lock = self.transitions.lock();
            self.remove_locked(loaded)
        };
        if removed {
            self.caches.forget(std::slice::from_ref(loaded));
        }
        removed
    }

    /// Seals an object and removes it while the caller holds the lock. The caller makes the caches
    /// forget it after releasing the lock.
    pub(crate) fn remove_locked(&self, loaded: &Arc<LoadedSection>) -> bool {
        loaded.retire();
        let map = self.map.pin();
        let is_installed = map
            .get(&loaded.key())
            .is_some_and(|found| Arc::ptr_eq(found, loaded));
        is_installed && map.remove(&loaded.key()).is_some()
    }

    /// Ends a session and removes all its section objects. After this no object is published for
    /// it.
    pub(crate) fn end_session(&self, session: &Arc<LeasedSession>) -> Vec<Arc<LoadedSection>> {
        let lock = self.transitions.lock();
        session.end();
        let old: Vec<_> = self
            .all()
            .into_iter()
            .filter(|l| Arc::ptr_eq(&l.session, session))
            .collect();
        for loaded in &old {
            self.remove_locked(loaded);
        }
        drop(lock);
        self.caches.forget(&old);
        old
    }

    /// Removes the objects whose slot has changed hands.
    pub(crate) fn drop_stale(&self, table: &RoutingTable) {
        let epoch = |slot| table.route(slot).map(|route| route.epoch);
        for loaded in self.all() {
            // Epochs only grow, so a table that is older than the object says nothing about it.
            if epoch(loaded.fence.slot).is_some_and(|now| now > loaded.fence.epoch) {
                self.retire(&loaded);
            }
        }
        let mut transitions = self.transitions.lock();
        transitions
            .frozen
            .retain(|slot, at| epoch(*slot).is_none_or(|now| now <= *at));
        transitions.unconfirmed_closes.retain(|_, last| {
            let fence = last.fence.unwrap_or_default();
            epoch(Slot(fence.slot as u16)).is_none_or(|now| now.0 <= fence.epoch)
        });
    }

    /// Starts an open or a close of a section, or joins the one in progress. `Ok`: the caller must
    /// do it and then send its result.
    pub(crate) fn begin_transition(
        &self,
        fence: Fence,
    ) -> Result<watch::Sender<TransitionResult>, Result<TransitionReceiver, RpcError>> {
        let (key, slot) = (fence.section, fence.slot);
        let mut transitions = self.transitions.lock();
        if let Some((_, in_progress)) = transitions.in_progress.get(&key) {
            return Err(Ok(in_progress.clone()));
        }
        if transitions
            .frozen
            .get(&slot)
            .is_some_and(|at| *at >= fence.epoch)
        {
            let text = format!("slot {slot} is moving to another AllocSvr");
            return Err(Err(RpcError::new(Reason::NotOwner, text)));
        }
        let (tx, rx) = watch::channel(None);
        transitions.in_progress.insert(key, (slot, rx));
        Ok(tx)
    }

    /// Returns the generation that an Open of the section must follow; None if this process does
    /// not know it.
    ///
    /// Invariant: a late duplicate of an Open of a section that was loaded here before begins no
    /// generation. Schedule that breaks it: an Open is answered by its second attempt, the section
    /// is closed, the first attempt arrives. If the store filled in the generation, it would begin
    /// one that nothing uses, and the next Open would start above its window. For the first Open at
    /// an epoch that gap remains.
    pub(crate) fn last_generation(&self, fence: Fence) -> Option<u64> {
        let transitions = self.transitions.lock();
        let (epoch, last) = transitions.generations.get(&fence.section)?;
        (*epoch == fence.epoch).then_some(*last)
    }

    /// Records the last generation of a section that is closed, or that the store named.
    pub(crate) fn record_generation(&self, fence: Fence, last: u64) {
        let mut transitions = self.transitions.lock();
        if transitions.generations.len() >= GENERATIONS_MAX {
            transitions.generations.clear();
        }
        transitions
            .generations
            .insert(fence.section, (fence.epoch, last));
    }

    pub(crate) fn end_transition(
        &self,
        key: SectionKey,
        tx: &watch::Sender<TransitionResult>,
        outcome: Result<(), RpcError>,
    ) {
        self.transitions.lock().in_progress.remove(&key);
        tx.send_replace(Some(outcome));
    }

    /// Publishes a newly opened object unless its session ended or a newer one is there.
    pub(crate) fn publish(&self, loaded: LoadedSection) {
        let mut transitions = self.transitions.lock();
        if !loaded.session.is_alive() {
            return;
        }
        // Its Open was applied after the close, or instead of it.
        transitions.unconfirmed_closes.remove(&loaded.key());
        transitions.generations.remove(&loaded.key());
        let map = self.map.pin();
        if let Some(old) = map.get(&loaded.key()) {
            if old.generation >= loaded.generation {
                return;
            }
            old.retire();
        }
        let old = map.insert(loaded.key(), Arc::new(loaded));
        drop(transitions);
        if let Some(old) = old {
            self.caches.forget(std::slice::from_ref(old));
        }
    }

    pub(crate) fn build_section(&self, namespace: &Namespace, opened: &v1::Opened) -> Section {
        let progression = namespace.spec.progression;
        let open = SectionGrant {
            generation: opened.generation,
            base: opened.base,
            max_seq: opened.max_seq,
            first: progression.first_after(opened.base),
            stride: u64::from(progression.stride),
        };
        match namespace.spec.geometry {
            Geometry::Dense { section_size, .. } => Section::dense(open, section_size),
            Geometry::Keyed { .. } => Section::keyed(open, self.hash_key),
        }
    }
}

pub(crate) async fn wait_for_transition(
    mut in_progress: TransitionReceiver,
) -> Result<(), RpcError> {
    match in_progress.wait_for(Option::is_some).await {
        Ok(done) => done.clone().unwrap_or(Ok(())),
        Err(_) => Err(shutting_down_error()),
    }
}
