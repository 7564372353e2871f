//! The hot path: what frames can be answered from memory at once.
//!
//! For all frames that have come together there is one look at table, session and lease before and
//! one after taking, one clock read, no lock, and no allocation per item; each section is looked up
//! and entered once (`entered`). All keys of a block are looked up first and fetched together, then
//! numbers are taken (`take`), so that cache misses overlap instead of adding up.
//!
//! Only the usual case lives here: an item of a loaded, unsealed section of this node's present
//! session, whose window reaches, of a caller that has not seen more than we would give. Everything
//! else is *missed* and takes the long way (`serve`), which finds out why and what to do.
//!
//! Invariant (DESIGN 5.4): a number taken here is answered only if, at a clock reading made after
//! the last number of the frames was taken (hence after all of them were received), the session
//! that its section object belongs to lives and its lease holds, and the routing table read after
//! taking still has its slot at its epoch in that session. Were the table read before taking
//! trusted alone, a node that was stopped in between and then learnt of a new owner would answer an
//! older number after the new owner had answered greater ones.
//!
//! Invariant (DESIGN 5.9): an answer given here is of a namespace that is not strict by the table
//! read after taking. Schedule that breaks it: the node is cut off; the namespace becomes strict;
//! more than D later a call takes its numbers by the old table; a renewal brings lease and table;
//! the check passes by the new lease. The session is checked before the newest table is read: a
//! renewal stores the table first.

mod current;
mod entered;
mod found;
mod one;
mod place;
mod take;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::id::Epoch;
use seqsvr_core::reached;
use seqsvr_core::route::RoutingTable;

use place::place;
use take::BatchTaker;

use crate::columns::BatchResponse;
use crate::frame::{BatchOperation, BatchRequest};
use crate::node::Node;
use crate::section_cache::LookupCache;
use crate::session::LeasedSession;

/// Most items of a frame served at one go: beyond that other calls of the thread would wait too
/// long for it.
pub(crate) const FRAME_MAX: usize = 2_048;
/// Items of a unary call that are looked for in vain: beyond that it is one for the long way, and
/// the search only keeps others waiting. Not of a Pipe's frames, whose items are of several
/// callers: none is to wait for another's section.
const MISSED_MAX: usize = 64;
/// Keys nobody touched yet of a frame served at one go: a counter for one is made in a microsecond
/// or two, and whoever makes up keys is not to keep others waiting.
const UNTOUCHED_MAX: usize = 16;

/// What became of a frame.
#[derive(Default)]
pub(crate) struct FastPathResult {
    /// Answers of all items that are not missed, in their order.
    pub(crate) columns: BatchResponse,
    /// The others, rising.
    pub(crate) missed: Vec<u32>,
    /// Numbers taken for them.
    numbers: u64,
}

impl FastPathResult {
    fn for_items(n: usize) -> FastPathResult {
        FastPathResult {
            columns: BatchResponse::with_capacity(n),
            missed: Vec::new(),
            numbers: 0,
        }
    }

    fn none(frame: &BatchRequest) -> FastPathResult {
        FastPathResult {
            columns: BatchResponse::default(),
            missed: (0..frame.len() as u32).collect(),
            numbers: 0,
        }
    }
}

impl Node {
    /// Answers what it can of a checked frame of a unary call.
    pub(crate) fn hit(self: &Arc<Self>, frame: &BatchRequest) -> FastPathResult {
        let hits = self.hit_each(std::slice::from_ref(frame), MISSED_MAX).pop();
        hits.unwrap_or_else(|| FastPathResult::none(frame))
    }

    /// Answers what it can of checked frames that have come together, in their order.
    pub(crate) fn hit_all(self: &Arc<Self>, frames: &[BatchRequest]) -> Vec<FastPathResult> {
        self.hit_each(frames, usize::MAX)
    }

    fn hit_each(
        self: &Arc<Self>,
        frames: &[BatchRequest],
        missed_max: usize,
    ) -> Vec<FastPathResult> {
        let table = self.table.guard();
        let session = self.session.load();
        let (Some(table), Some(session)) = (table.as_ref(), session.as_ref()) else {
            return frames.iter().map(FastPathResult::none).collect();
        };
        let items = frames.iter().map(BatchRequest::len).sum();
        let map = self.sections.pin();
        let mut cache = self.sections.caches.take(session);
        let none = LookupCache::default();
        let known = cache.as_deref().unwrap_or(&none);
        let mut taking = BatchTaker::new(self, table, session, &map, known, items);
        let taken = frames.iter().map(|frame| {
            let known = table.namespace(frame.namespace_name());
            let usual = known.filter(|namespace| {
                let strict = frame.strict || namespace.spec.limits.strict;
                !strict && frame.len() <= FRAME_MAX && self.may_serve()
            });
            match (usual, frame.asks) {
                (Some(namespace), BatchOperation::Next) => {
                    taking.next(frame, namespace, missed_max)
                }
                (Some(namespace), BatchOperation::Current) => {
                    taking.current(frame, namespace, missed_max)
                }
                (None, _) => FastPathResult::none(frame),
            }
        });
        let mut all: Vec<FastPathResult> = taken.collect();
        let found = taking.leave();
        if let Some(cache) = &mut cache
            && !found.is_empty()
        {
            cache.note(found, table.version(), self.sections.len());
        }
        drop(cache);
        // After every number was taken: see above.
        let now = self.clock.now();
        if !session.serves(now) {
            let burned = all.iter().map(|hits| hits.numbers).sum();
            if burned > 0 {
                reached!("alloc: numbers burned, the lease was over");
            }
            self.counters.burned.add(burned);
            self.lapsed.store(true, Relaxed);
            return frames.iter().map(FastPathResult::none).collect();
        }
        let newest = self.table.guard();
        if let Some(newest) = newest.as_ref().filter(|newest| !Arc::ptr_eq(newest, table)) {
            for (frame, hits) in frames.iter().zip(&mut all) {
                self.withdraw(frame, hits, table, newest, session);
            }
        }
        for (frame, hits) in frames.iter().zip(&all) {
            if frame.asks == BatchOperation::Next {
                self.counters.nexts.add(hits.columns.values.len() as u64);
                self.counters.numbers.add(hits.numbers);
            }
        }
        all
    }

    /// The table changed while numbers were taken: withdraws those of namespaces that have become
    /// strict, and of slots that are not ours any more as they were, which burns them. What was
    /// only read is asked again.
    fn withdraw(
        &self,
        frame: &BatchRequest,
        hits: &mut FastPathResult,
        table: &RoutingTable,
        newest: &RoutingTable,
        session: &LeasedSession,
    ) {
        let namespace = table.namespace(frame.namespace_name());
        let strict = namespace.is_none_or(|known| newest.is_strict(known));
        let (Some(namespace), BatchOperation::Next, false) = (namespace, frame.asks, strict) else {
            self.counters.burned.add(hits.numbers);
            *hits = FastPathResult::none(frame);
            return;
        };
        let old = std::mem::take(hits);
        hits.numbers = old.numbers;
        let mut at = 0;
        let mut missed = old.missed.into_iter().peekable();
        for i in 0..frame.len() {
            if missed.next_if_eq(&(i as u32)).is_some() {
                hits.missed.push(i as u32);
                continue;
            }
            let epoch = old.columns.epoch(at);
            let ours = place(frame.key(i), namespace)
                .map(|(section, _)| newest.slot_of(section))
                .is_some_and(|slot| session.owns(slot, Epoch(epoch), newest));
            if ours {
                hits.columns.push_epoch(epoch);
                hits.columns.values.push(old.columns.values[at]);
                hits.columns.lasts.extend(old.columns.lasts.get(at));
            } else {
                hits.numbers -= frame.count(i).map_or(0, |count| u64::from(count.get()));
                hits.missed.push(i as u32);
            }
            at += 1;
        }
        if old.numbers > hits.numbers {
            reached!("alloc: numbers withdrawn, the slot moved on");
        }
        self.counters.burned.add(old.numbers - hits.numbers);
    }

    /// Whether the lease held when last looked at; only spares numbers that would be burned.
    fn may_serve(&self) -> bool {
        if !self.lapsed.load(Relaxed) {
            return true;
        }
        let serves = self.has_lease();
        self.lapsed.store(!serves, Relaxed);
        serves
    }
}

#[cfg(test)]
pub(crate) mod tests;
