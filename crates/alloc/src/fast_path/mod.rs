//! The fast path: answers the items of batches that memory can answer at once.
//!
//! All batches that have been received together share one look at table, session and lease before
//! taking and one after it, and one clock reading. There is no lock, and no allocation per item.
//! Each section is found and entered once (`entered_sections`). All keys of a block are located
//! first and fetched together, then numbers are taken (`batch_taker`), so that cache misses overlap
//! instead of adding up.
//!
//! Only the usual case is here: an item of a loaded, unsealed section of this node's current
//! session, whose window reaches, of a caller that has not seen more than the section would give.
//! Every other item is *missed* and takes the slow path (`slow_path`), which finds the reason and
//! what to do.
//!
//! Invariant (DESIGN 5.4): a number taken here is answered only if it passes a check whose clock
//! reading was made after the last number of the batches was taken, hence after all of them were
//! received. `session/serving_check.rs` states the check and the schedules that break it.
//!
//! Invariant (DESIGN 5.9): an answer given here is of a namespace that is not strict by the table
//! read after taking. Schedule that breaks it: the node is cut off; the namespace becomes strict;
//! more than D later a call takes its numbers by the old table; a renewal brings lease and table;
//! the check passes by the new lease. The session is checked before the newest table is read,
//! because a renewal stores the table first.

mod batch_taker;
mod entered_sections;
mod key_location;
mod lookup_block;
mod single;

use std::sync::Arc;

use seqsvr_core::ids::Epoch;
use seqsvr_core::reached;
use seqsvr_core::routing_table::RoutingTable;

use batch_taker::BatchTaker;
use key_location::locate_key;

use crate::batch::request::{BatchOperation, BatchRequest};
use crate::batch::response::BatchResponse;
use crate::sections::lookup_cache::LookupCache;
use crate::sections::refiller::Refiller;
use crate::sections::section_map::SectionMap;
use crate::session::leased_session::LeasedSession;
use crate::session::serving_check::{Confirmed, ServingCheck};
use crate::shared_parts::SharedParts;

/// Maximum items of a batch on the fast path. A larger batch takes the slow path, so that other
/// calls of the thread do not wait too long for it.
pub(crate) const FAST_PATH_ITEMS_MAX: usize = 2_048;
/// Maximum misses of a unary call on the fast path. Above it all its remaining items are missed,
/// because the search only delays others. Frames of a Pipe have no such limit: their items are of
/// several callers, and no caller waits for the section of another.
const UNARY_MISSES_MAX: usize = 64;
/// Maximum new keys of a batch on the fast path. A counter for a new key takes one or two
/// microseconds to create. Above the limit keys are missed, so that a caller that makes up keys
/// does not delay others.
const NEW_KEYS_MAX: usize = 16;

/// Result of a batch on the fast path.
#[derive(Default)]
pub(crate) struct FastPathResult {
    /// Answers of all items that are not missed, in their order.
    pub(crate) answers: BatchResponse,
    /// Indexes of the other items, in rising order.
    pub(crate) missed: Vec<u32>,
    /// Numbers taken for the answered items.
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

/// Answers from the sections in memory.
pub(crate) struct FastPath {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) refiller: Arc<Refiller>,
}

impl FastPath {
    /// Answers what it can of a validated batch of a unary call.
    pub(crate) fn try_batch(&self, batch: &BatchRequest) -> FastPathResult {
        let result = self
            .try_batches_with(std::slice::from_ref(batch), UNARY_MISSES_MAX)
            .pop();
        result.unwrap_or_else(|| FastPathResult::all_missed(batch))
    }

    /// Answers what it can of validated batches that have been received together, in their order.
    pub(crate) fn try_batches(&self, batches: &[BatchRequest]) -> Vec<FastPathResult> {
        self.try_batches_with(batches, usize::MAX)
    }

    fn try_batches_with(&self, batches: &[BatchRequest], missed_max: usize) -> Vec<FastPathResult> {
        let table = self.shared.table.peek();
        let session = self.shared.session.peek();
        let (Some(table), Some(session)) = (table.as_ref(), session.as_ref()) else {
            return batches.iter().map(FastPathResult::all_missed).collect();
        };
        let check = ServingCheck::begin(table, session);
        let items = batches.iter().map(BatchRequest::len).sum();
        let map = self.sections.pin();
        let mut cache = self.sections.caches.try_acquire(session);
        let empty_cache = LookupCache::default();
        let cached = cache.as_deref().unwrap_or(&empty_cache);
        let mut taker = BatchTaker::new(&self.refiller, &check, &map, cached, items);
        let served = batches.iter().map(|batch| {
            let namespace = table.namespace(batch.namespace_name());
            let servable = namespace.filter(|namespace| {
                let strict = batch.strict || namespace.spec.limits.strict;
                !strict
                    && batch.len() <= FAST_PATH_ITEMS_MAX
                    && self.shared.session.may_have_lease()
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
        match check.confirm(&self.shared.session, &self.shared.table) {
            Confirmed::All => {}
            Confirmed::TableChanged(newest) => {
                for (batch, result) in batches.iter().zip(&mut results) {
                    self.withdraw_moved(batch, result, table, &newest, session);
                }
            }
            Confirmed::LeaseLost => {
                let discarded = results.iter().map(|result| result.numbers_taken).sum();
                if discarded > 0 {
                    reached!("alloc: numbers discarded, the lease was over");
                }
                self.shared.counters.numbers_discarded.add(discarded);
                return batches.iter().map(FastPathResult::all_missed).collect();
            }
        }
        for (batch, result) in batches.iter().zip(&results) {
            if batch.operation == BatchOperation::Next {
                self.shared
                    .counters
                    .next_items
                    .add(result.answers.values.len() as u64);
                self.shared
                    .counters
                    .numbers_issued
                    .add(result.numbers_taken);
            }
        }
        results
    }

    /// Withdraws answers after the table changed while numbers were taken: those of namespaces that
    /// have become strict, and of slots that this session no longer owns at the same epoch. Their
    /// numbers are discarded. Answers that were only read are read again on the slow path.
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
            self.shared
                .counters
                .numbers_discarded
                .add(result.numbers_taken);
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
        self.shared
            .counters
            .numbers_discarded
            .add(previous.numbers_taken - result.numbers_taken);
    }
}

#[cfg(test)]
pub(crate) mod tests;
