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

mod batch_taker;
mod entered_sections;
mod key_location;
mod lookup_block;
mod single;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::id::Epoch;
use seqsvr_core::reached;
use seqsvr_core::route::RoutingTable;

use batch_taker::BatchTaker;
use key_location::locate_key;

use crate::batch::request::{BatchOperation, BatchRequest};
use crate::batch::response::BatchResponse;
use crate::node::Node;
use crate::sections::lookup_cache::LookupCache;
use crate::session::leased_session::LeasedSession;

/// Most items of a frame served at one go: beyond that other calls of the thread would wait too
/// long for it.
pub(crate) const FAST_PATH_ITEMS_MAX: usize = 2_048;
/// Items of a unary call that are looked for in vain: beyond that it is one for the long way, and
/// the search only keeps others waiting. Not of a Pipe's frames, whose items are of several
/// callers: none is to wait for another's section.
const UNARY_MISSES_MAX: usize = 64;
/// Keys nobody touched yet of a frame served at one go: a counter for one is made in a microsecond
/// or two, and whoever makes up keys is not to keep others waiting.
const NEW_KEYS_MAX: usize = 16;

/// What became of a frame.
#[derive(Default)]
pub(crate) struct FastPathResult {
    /// Answers of all items that are not missed, in their order.
    pub(crate) answers: BatchResponse,
    /// The others, rising.
    pub(crate) missed: Vec<u32>,
    /// Numbers taken for them.
    numbers_taken: u64,
}

impl FastPathResult {
    fn with_capacity(n: usize) -> FastPathResult {
        FastPathResult {
            answers: BatchResponse::with_capacity(n),
            missed: Vec::new(),
            numbers_taken: 0,
        }
    }

    fn all_missed(batch: &BatchRequest) -> FastPathResult {
        FastPathResult {
            answers: BatchResponse::default(),
            missed: (0..batch.len() as u32).collect(),
            numbers_taken: 0,
        }
    }
}

impl Node {
    /// Answers what it can of a checked frame of a unary call.
    pub(crate) fn try_batch(self: &Arc<Self>, batch: &BatchRequest) -> FastPathResult {
        let result = self
            .try_batches_with(std::slice::from_ref(batch), UNARY_MISSES_MAX)
            .pop();
        result.unwrap_or_else(|| FastPathResult::all_missed(batch))
    }

    /// Answers what it can of checked frames that have come together, in their order.
    pub(crate) fn try_batches(self: &Arc<Self>, batches: &[BatchRequest]) -> Vec<FastPathResult> {
        self.try_batches_with(batches, usize::MAX)
    }

    fn try_batches_with(
        self: &Arc<Self>,
        batches: &[BatchRequest],
        missed_max: usize,
    ) -> Vec<FastPathResult> {
        let table = self.table.peek();
        let session = self.session.load();
        let (Some(table), Some(session)) = (table.as_ref(), session.as_ref()) else {
            return batches.iter().map(FastPathResult::all_missed).collect();
        };
        let items = batches.iter().map(BatchRequest::len).sum();
        let map = self.sections.pin();
        let mut cache = self.sections.caches.try_acquire(session);
        let empty_cache = LookupCache::default();
        let cached = cache.as_deref().unwrap_or(&empty_cache);
        let mut taker = BatchTaker::new(self, table, session, &map, cached, items);
        let served = batches.iter().map(|batch| {
            let namespace = table.namespace(batch.namespace_name());
            let servable = namespace.filter(|namespace| {
                let strict = batch.strict || namespace.spec.limits.strict;
                !strict && batch.len() <= FAST_PATH_ITEMS_MAX && self.may_serve()
            });
            match (servable, batch.operation) {
                (Some(namespace), BatchOperation::Next) => {
                    taker.take_batch(batch, namespace, missed_max)
                }
                (Some(namespace), BatchOperation::Current) => {
                    taker.read_batch(batch, namespace, missed_max)
                }
                (None, _) => FastPathResult::all_missed(batch),
            }
        });
        let mut results: Vec<FastPathResult> = served.collect();
        let uncached = taker.finish();
        if let Some(cache) = &mut cache
            && !uncached.is_empty()
        {
            cache.insert_found(uncached, table.version(), self.sections.len());
        }
        drop(cache);
        // After every number was taken: see above.
        let now = self.clock.now();
        if !session.may_serve_at(now) {
            let burned = results.iter().map(|result| result.numbers_taken).sum();
            if burned > 0 {
                reached!("alloc: numbers burned, the lease was over");
            }
            self.counters.burned.add(burned);
            self.lease_lapsed.store(true, Relaxed);
            return batches.iter().map(FastPathResult::all_missed).collect();
        }
        let newest = self.table.peek();
        if let Some(newest) = newest.as_ref().filter(|newest| !Arc::ptr_eq(newest, table)) {
            for (batch, result) in batches.iter().zip(&mut results) {
                self.withdraw_moved(batch, result, table, newest, session);
            }
        }
        for (batch, result) in batches.iter().zip(&results) {
            if batch.operation == BatchOperation::Next {
                self.counters.nexts.add(result.answers.values.len() as u64);
                self.counters.numbers.add(result.numbers_taken);
            }
        }
        results
    }

    /// The table changed while numbers were taken: withdraws those of namespaces that have become
    /// strict, and of slots that are not ours any more as they were, which burns them. What was
    /// only read is asked again.
    fn withdraw_moved(
        &self,
        batch: &BatchRequest,
        result: &mut FastPathResult,
        table: &RoutingTable,
        newest: &RoutingTable,
        session: &LeasedSession,
    ) {
        let namespace = table.namespace(batch.namespace_name());
        let strict = namespace.is_none_or(|namespace| newest.is_strict(namespace));
        let (Some(namespace), BatchOperation::Next, false) = (namespace, batch.operation, strict)
        else {
            self.counters.burned.add(result.numbers_taken);
            *result = FastPathResult::all_missed(batch);
            return;
        };
        let previous = std::mem::take(result);
        result.numbers_taken = previous.numbers_taken;
        let mut answer_index = 0;
        let mut missed = previous.missed.into_iter().peekable();
        for i in 0..batch.len() {
            if missed.next_if_eq(&(i as u32)).is_some() {
                result.missed.push(i as u32);
                continue;
            }
            let epoch = previous.answers.epoch_at(answer_index);
            let is_owned = locate_key(batch.key_at(i), namespace)
                .map(|(section, _)| newest.slot_of(section))
                .is_some_and(|slot| session.is_owner_of(slot, Epoch(epoch), newest));
            if is_owned {
                result.answers.push_epoch(epoch);
                result
                    .answers
                    .values
                    .push(previous.answers.values[answer_index]);
                result
                    .answers
                    .lasts
                    .extend(previous.answers.lasts.get(answer_index));
            } else {
                result.numbers_taken -= batch.count_at(i).map_or(0, |count| u64::from(count.get()));
                result.missed.push(i as u32);
            }
            answer_index += 1;
        }
        if previous.numbers_taken > result.numbers_taken {
            reached!("alloc: numbers withdrawn, the slot moved on");
        }
        self.counters
            .burned
            .add(previous.numbers_taken - result.numbers_taken);
    }

    /// Whether the lease held when last looked at; only spares numbers that would be burned.
    fn may_serve(&self) -> bool {
        if !self.lease_lapsed.load(Relaxed) {
            return true;
        }
        let serves = self.has_lease();
        self.lease_lapsed.store(!serves, Relaxed);
        serves
    }
}

#[cfg(test)]
pub(crate) mod tests;
