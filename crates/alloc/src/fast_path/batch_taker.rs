//! Takes the numbers of a batch: all items of a block are located, then numbers are taken.

mod read_batch;

use std::hint::black_box;
use std::sync::Arc;

use seqsvr_core::geometry::GeometryKind;
use seqsvr_core::ids::{SectionKey, Uid};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::section::{CounterRef, CurrentValue};

use super::entered_sections::EnteredSections;
use super::key_location::{locate_key, locate_uid, with_section_key};
use super::lookup_block::{LOOKUP_BLOCK_ITEMS, LookupBlock};
use super::{FastPathResult, NEW_KEYS_MAX};
use crate::batch::request::{BatchRequest, TakeArgs};
use crate::sections::loaded_section::LoadedSection;
use crate::sections::lookup_cache::LookupCache;
use crate::sections::refiller::Refiller;
use crate::sections::section_map::PinnedSections;
use crate::session::serving_check::ServingCheck;

/// Shared state of batches that are served together.
pub(super) struct BatchTaker<'m> {
    refiller: &'m Arc<Refiller>,
    check: &'m ServingCheck<'m>,
    table_version: u64,
    map: &'m PinnedSections<'m>,
    cache: &'m LookupCache,
    /// Sections found in the map that are neither in the cache nor entered.
    uncached: Vec<Arc<LoadedSection>>,
    entered: EnteredSections<'m>,
    block: LookupBlock<'m>,
}

impl<'m> BatchTaker<'m> {
    /// Creates a taker for batches of `items` items in all.
    pub(super) fn new(
        refiller: &'m Arc<Refiller>,
        check: &'m ServingCheck<'m>,
        map: &'m PinnedSections<'m>,
        cache: &'m LookupCache,
        items: usize,
    ) -> BatchTaker<'m> {
        BatchTaker {
            refiller,
            check,
            table_version: check.table().version(),
            map,
            cache,
            uncached: Vec::new(),
            entered: EnteredSections::with_capacity(items),
            block: LookupBlock::empty(),
        }
    }

    /// Returns the section, if it is loaded and servable. It may be sealed.
    #[inline]
    pub(super) fn find_section(&mut self, section: SectionKey) -> Option<&'m LoadedSection> {
        match self.cache.find(section, self.table_version) {
            Some(loaded) => Some(loaded),
            None => self.find_uncached(section),
        }
    }

    /// Returns a section that is not in the cache, if it is loaded and servable.
    #[inline(never)]
    fn find_uncached(&mut self, section: SectionKey) -> Option<&'m LoadedSection> {
        if let Some(loaded) = self.entered.find(section) {
            return Some(loaded);
        }
        let loaded = self.map.get(&section)?;
        if !loaded.is_current_in(self.check) {
            return None;
        }
        // A block of one section adds it once.
        if !self
            .uncached
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, loaded))
        {
            self.uncached.push(loaded.clone());
        }
        Some(loaded)
    }

    /// Starts due refills of all entered sections and leaves them. Returns the sections that were
    /// not in the cache.
    pub(super) fn finish(self) -> Vec<Arc<LoadedSection>> {
        let entered = self.entered.iter();
        entered.for_each(|loaded| refill_if_due(self.refiller, self.map, loaded));
        self.uncached
    }

    /// Takes the numbers of a batch of Next, with at most `missed_max` misses.
    pub(super) fn take_batch(
        &mut self,
        batch: &BatchRequest,
        namespace: &Namespace,
        missed_max: usize,
    ) -> FastPathResult {
        // Mostly all items have the same arguments, so no column is read for each item.
        match batch.common_take_args() {
            Some(take_args) => self.take_numbers(batch, namespace, missed_max, |_| Some(take_args)),
            None => self.take_numbers(batch, namespace, missed_max, |i| batch.take_args_at(i)),
        }
    }

    #[inline]
    fn take_numbers(
        &mut self,
        batch: &BatchRequest,
        namespace: &Namespace,
        missed_max: usize,
        take_args_of: impl Fn(usize) -> Option<TakeArgs>,
    ) -> FastPathResult {
        let mut result = FastPathResult::with_capacity(batch.len());
        let mut new_keys = 0;
        let count_max = namespace.spec.count_max();
        let has_counts = batch.has_counts();
        for begin in (0..batch.len()).step_by(LOOKUP_BLOCK_ITEMS) {
            if new_keys > NEW_KEYS_MAX || result.missed.len() >= missed_max {
                result.missed.extend(begin as u32..batch.len() as u32);
                break;
            }
            let item_count = LOOKUP_BLOCK_ITEMS.min(batch.len() - begin);
            self.locate_block(batch, begin, item_count, namespace, &mut new_keys);
            for at in 0..item_count {
                let i = begin + at;
                let (spot, index) = (&self.block.counters[at], self.block.dense_indices[at]);
                let taken = self.block.sections[at].and_then(|loaded| {
                    let TakeArgs {
                        count,
                        floor,
                        epoch,
                    } = take_args_of(i).filter(|take_args| take_args.count.get() <= count_max)?;
                    if epoch > loaded.fence.epoch.0 || !is_above_floor(loaded, spot.as_ref(), floor)
                    {
                        return None;
                    }
                    let range = match (spot, self.entered.guard_of(loaded)) {
                        (Some(spot), Some(guard)) => guard.take_at(*spot, count),
                        (spot, guard) => {
                            let is_not_entered = guard.is_none();
                            let range = match spot {
                                Some(spot) => spot.next(count),
                                None => {
                                    with_section_key(batch.key_at(i), namespace, index, |key| {
                                        loaded.section.next(key, count)
                                    })
                                }
                            };
                            if is_not_entered {
                                refill_if_due(self.refiller, self.map, loaded);
                            }
                            range
                        }
                    };
                    Some((loaded, count, range.ok()?))
                });
                let Some((loaded, count, range)) = taken else {
                    result.missed.push(i as u32);
                    continue;
                };
                debug_assert!(range.first > batch.floor_at(i), "counters never go back");
                result.answers.push_epoch(loaded.fence.epoch.0);
                result.answers.values.push(range.first);
                if has_counts {
                    result.answers.lasts.push(range.last);
                }
                result.numbers_taken += u64::from(count.get());
            }
        }
        result
    }

    /// Sets the section of an item.
    #[inline]
    fn set_section(&mut self, at: usize, location: Option<(SectionKey, u32)>) {
        self.block.sections[at] = location.and_then(|(section, index)| {
            self.block.dense_indices[at] = index;
            self.find_section(section)
        });
    }

    /// Goes over a block several times. Each pass does little for an item, and nothing that orders
    /// memory. So what many items wait for is fetched at once: the sections, the addresses of the
    /// counters, the counters.
    #[inline]
    fn locate_block(
        &mut self,
        batch: &BatchRequest,
        begin: usize,
        item_count: usize,
        namespace: &Namespace,
        new_keys: &mut usize,
    ) {
        match (
            namespace.spec.geometry.kind(),
            batch.uids().get(begin..begin + item_count),
        ) {
            (GeometryKind::Dense, Some(uids)) => {
                for (at, uid) in uids.iter().enumerate() {
                    let location = locate_uid(Uid(*uid), namespace);
                    self.set_section(at, location);
                }
                self.block.clear_lookups();
            }
            (GeometryKind::Dense, None) => self.block.sections[..item_count].fill(None),
            (GeometryKind::Keyed, _) => {
                for at in 0..item_count {
                    let location = locate_key(batch.key_at(begin + at), namespace);
                    self.set_section(at, location);
                }
                self.block
                    .prefetch_keys(batch, begin, item_count, namespace);
            }
        }
        let block = &mut self.block;
        for at in 0..item_count {
            let loaded = block.sections[at].filter(|_| *new_keys <= NEW_KEYS_MAX);
            block.counters[at] = loaded.and_then(|loaded| {
                loaded
                    .section
                    .find_counter(block.key_lookup(at, &loaded.section)?)
            });
            *new_keys += usize::from(loaded.is_some() && block.counters[at].is_none());
            block.sections[at] = loaded.filter(|_| *new_keys <= NEW_KEYS_MAX);
        }
        let fetched = block.counters[..item_count]
            .iter()
            .flatten()
            .map(CounterRef::prefetch_counter);
        black_box(fetched.fold(0, u32::wrapping_add));
    }
}

/// Starts a refill of a section from which numbers were taken, if one is due.
#[inline]
pub(super) fn refill_if_due(
    refiller: &Arc<Refiller>,
    map: &PinnedSections<'_>,
    loaded: &LoadedSection,
) {
    if loaded.should_raise()
        && let Some(loaded) = map.get(&loaded.key())
    {
        refiller.start_refill(loaded);
    }
}

/// Returns whether every later number of a key is above `floor`, found without taking one, because
/// counters never go back.
#[inline]
pub(super) fn is_above_floor(
    loaded: &LoadedSection,
    spot: Option<&CounterRef<'_>>,
    floor: u64,
) -> bool {
    floor == 0
        || match spot.map(CounterRef::current) {
            Some(CurrentValue::Touched(now)) => now >= floor,
            Some(CurrentValue::Untouched) | None => loaded.section.base() >= floor,
        }
}
