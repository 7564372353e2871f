//! Taking the numbers of a frame: all items of a block are looked up, then numbers are taken.

use std::hint::black_box;
use std::sync::Arc;

use seqsvr_core::geometry::Kind;
use seqsvr_core::id::{SectionKey, Uid};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::RoutingTable;
use seqsvr_core::section::{Current, Spot};

use super::entered::EnteredSections;
use super::found::{BLOCK, LookupBlock};
use super::place::{place, place_uid, with_key};
use super::{FastPathResult, UNTOUCHED_MAX};
use crate::frame::{BatchRequest, TakeArgs};
use crate::loaded::LoadedSection;
use crate::node::Node;
use crate::section_cache::LookupCache;
use crate::sections::PinnedSections;
use crate::session::LeasedSession;

/// What frames that are served together share.
pub(super) struct BatchTaker<'m> {
    node: &'m Arc<Node>,
    table: &'m RoutingTable,
    session: &'m Arc<LeasedSession>,
    map: &'m PinnedSections<'m>,
    cache: &'m LookupCache,
    /// Found in the map, neither in the cache nor entered.
    new: Vec<Arc<LoadedSection>>,
    entered: EnteredSections<'m>,
    found: LookupBlock<'m>,
}

impl<'m> BatchTaker<'m> {
    /// For frames of so many items in all.
    pub(super) fn new(
        node: &'m Arc<Node>,
        table: &'m RoutingTable,
        session: &'m Arc<LeasedSession>,
        map: &'m PinnedSections<'m>,
        cache: &'m LookupCache,
        items: usize,
    ) -> BatchTaker<'m> {
        BatchTaker {
            node,
            table,
            session,
            map,
            cache,
            new: Vec::new(),
            entered: EnteredSections::new(items),
            found: LookupBlock::none(),
        }
    }

    /// The section, if it is loaded and as usual. May be sealed.
    #[inline]
    pub(super) fn find(&mut self, section: SectionKey) -> Option<&'m LoadedSection> {
        match self.cache.get(section, self.table.version()) {
            Some(loaded) => Some(loaded),
            None => self.load(section),
        }
    }

    /// The same of one that is not in the cache.
    #[inline(never)]
    fn load(&mut self, section: SectionKey) -> Option<&'m LoadedSection> {
        if let Some(loaded) = self.entered.get(section) {
            return Some(loaded);
        }
        let loaded = self.map.get(&section)?;
        if !loaded.is_usual(self.table, self.session) {
            return None;
        }
        // Of a block of one section once.
        if !self
            .new
            .last()
            .is_some_and(|last| Arc::ptr_eq(last, loaded))
        {
            self.new.push(loaded.clone());
        }
        Some(loaded)
    }

    /// Leaves all sections, after a look at what is left of their windows. Gives those that were
    /// not in the cache.
    pub(super) fn leave(self) -> Vec<Arc<LoadedSection>> {
        let left = self.entered.all();
        left.for_each(|loaded| raise(self.node, self.map, loaded));
        self.new
    }

    /// Takes the numbers of a frame of Next, of which so many items may be looked for in vain.
    pub(super) fn next(
        &mut self,
        frame: &BatchRequest,
        namespace: &Namespace,
        missed_max: usize,
    ) -> FastPathResult {
        // Mostly all items want the same, so that nothing is to be looked up for one.
        match frame.wanted_by_all() {
            Some(wanted) => self.next_of(frame, namespace, missed_max, |_| Some(wanted)),
            None => self.next_of(frame, namespace, missed_max, |i| frame.wanted(i)),
        }
    }

    #[inline]
    fn next_of(
        &mut self,
        frame: &BatchRequest,
        namespace: &Namespace,
        missed_max: usize,
        wanted: impl Fn(usize) -> Option<TakeArgs>,
    ) -> FastPathResult {
        let mut hits = FastPathResult::for_items(frame.len());
        let mut untouched = 0;
        let count_max = namespace.spec.count_max();
        let counted = frame.is_counted();
        for begin in (0..frame.len()).step_by(BLOCK) {
            if untouched > UNTOUCHED_MAX || hits.missed.len() >= missed_max {
                hits.missed.extend(begin as u32..frame.len() as u32);
                break;
            }
            let n = BLOCK.min(frame.len() - begin);
            self.look_up(frame, begin, n, namespace, &mut untouched);
            for at in 0..n {
                let i = begin + at;
                let (spot, index) = (&self.found.spots[at], self.found.indices[at]);
                let taken = self.found.loaded[at].and_then(|loaded| {
                    let TakeArgs {
                        count,
                        floor,
                        epoch,
                    } = wanted(i).filter(|wanted| wanted.count.get() <= count_max)?;
                    if epoch > loaded.fence.epoch.0 || !is_past(loaded, spot.as_ref(), floor) {
                        return None;
                    }
                    let range = match (spot, self.entered.adder(loaded)) {
                        (Some(spot), Some(adder)) => adder.next_spot(*spot, count),
                        (spot, adder) => {
                            let alone = adder.is_none();
                            let range = match spot {
                                Some(spot) => spot.next(count),
                                None => with_key(frame.key(i), namespace, index, |key| {
                                    loaded.section.next(key, count)
                                }),
                            };
                            if alone {
                                raise(self.node, self.map, loaded);
                            }
                            range
                        }
                    };
                    Some((loaded, count, range.ok()?))
                });
                let Some((loaded, count, range)) = taken else {
                    hits.missed.push(i as u32);
                    continue;
                };
                debug_assert!(range.first > frame.floor(i), "counters never go back");
                hits.columns.push_epoch(loaded.fence.epoch.0);
                hits.columns.values.push(range.first);
                if counted {
                    hits.columns.lasts.push(range.last);
                }
                hits.numbers += u64::from(count.get());
            }
        }
        hits
    }

    /// Notes the section of an item.
    #[inline]
    fn found_at(&mut self, at: usize, placed: Option<(SectionKey, u32)>) {
        self.found.loaded[at] = placed.and_then(|(section, index)| {
            self.found.indices[at] = index;
            self.find(section)
        });
    }

    /// Goes over a block several times, each with little to do for an item and nothing that orders
    /// memory, so that what many items wait for is on its way at once: the sections, where the
    /// counters are, the counters.
    #[inline]
    fn look_up(
        &mut self,
        frame: &BatchRequest,
        begin: usize,
        n: usize,
        namespace: &Namespace,
        untouched: &mut usize,
    ) {
        match (
            namespace.spec.geometry.kind(),
            frame.uids().get(begin..begin + n),
        ) {
            (Kind::Dense, Some(uids)) => {
                for (at, uid) in uids.iter().enumerate() {
                    let placed = place_uid(Uid(*uid), namespace);
                    self.found_at(at, placed);
                }
                self.found.seek_none();
            }
            (Kind::Dense, None) => self.found.loaded[..n].fill(None),
            (Kind::Keyed, _) => {
                for at in 0..n {
                    let placed = place(frame.key(begin + at), namespace);
                    self.found_at(at, placed);
                }
                self.found.seek(frame, begin, n, namespace);
            }
        }
        let found = &mut self.found;
        for at in 0..n {
            let loaded = found.loaded[at].filter(|_| *untouched <= UNTOUCHED_MAX);
            found.spots[at] = loaded.and_then(|l| l.section.spot(found.sought(at, &l.section)?));
            *untouched += usize::from(loaded.is_some() && found.spots[at].is_none());
            found.loaded[at] = loaded.filter(|_| *untouched <= UNTOUCHED_MAX);
        }
        let fetched = found.spots[..n].iter().flatten().map(Spot::fetch);
        black_box(fetched.fold(0, u32::wrapping_add));
    }
}

/// Raises the window of a section of which numbers were taken, if it is time to.
#[inline]
pub(super) fn raise(node: &Arc<Node>, map: &PinnedSections<'_>, loaded: &LoadedSection) {
    if loaded.wants_raise()
        && let Some(loaded) = map.get(&loaded.key())
    {
        node.refill(loaded);
    }
}

impl LoadedSection {
    /// Whether it belongs to this session and is current by this table.
    #[inline]
    pub(super) fn is_usual(&self, table: &RoutingTable, session: &Arc<LeasedSession>) -> bool {
        self.is_current_at(table) && Arc::ptr_eq(&self.session, session)
    }
}

/// Whether every number to come of a key is above `floor`, seen without taking one: counters never
/// go back.
#[inline]
pub(super) fn is_past(loaded: &LoadedSection, spot: Option<&Spot<'_>>, floor: u64) -> bool {
    floor == 0
        || match spot.map(Spot::current) {
            Some(Current::Touched(now)) => now >= floor,
            Some(Current::Untouched) | None => loaded.section.base() >= floor,
        }
}
