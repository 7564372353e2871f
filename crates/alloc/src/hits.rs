//! The hot path: what a frame can be answered from memory at once.
//!
//! For a whole frame there is one look at table, session and lease before and one after taking, one
//! clock read, no lock, and no allocation per item; each section is looked up and entered once
//! (`entered`). All keys of a block are looked up first and fetched together, then numbers are taken, so
//! that cache misses overlap instead of adding up.
//!
//! Only the usual case lives here: an item of a loaded, unsealed section of this node's present
//! session, whose window reaches, of a caller that has not seen more than we would give. Everything
//! else is *missed* and takes the long way (`serve`), which finds out why and what to do.
//!
//! Invariant (DESIGN 5.4): a number taken here is answered only if, at a clock reading made after the
//! last number of the frame was taken (hence after the whole frame was received), the session that
//! its section object belongs to lives and its lease holds, and the routing table read after taking
//! still has its slot at its epoch in that session. Were the table read before taking trusted alone,
//! a node that was stopped in between and then learnt of a new owner would answer an older number
//! after the new owner had answered greater ones.

mod entered;
mod found;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::geometry::{KEY_MAX, Kind};
use seqsvr_core::id::{SectionKey, Uid};
use seqsvr_core::namespace::Namespace;
use seqsvr_core::route::{KeyRef, RoutingTable};
use seqsvr_core::section::{Current, Key, Spot};
use seqsvr_proto::v1::CurrentKind;

use entered::Entered;
use found::{BLOCK, Found};

use crate::ask::Answer;
use crate::frame::{Asks, Columns, Frame};
use crate::loaded::Loaded;
use crate::node::Node;
use crate::session::Session;

/// Most items served at one go: beyond that other calls of the thread would wait too long for it.
pub(crate) const FRAME_MAX: usize = 2_048;
/// Keys nobody touched yet of a frame served at one go: a counter for one is made in a microsecond or two,
/// and whoever makes up keys is not to keep others waiting.
const UNTOUCHED_MAX: usize = 32;

/// What became of a frame.
#[derive(Default)]
pub(crate) struct Hits {
    /// Answers of all items that are not missed, in their order.
    pub(crate) columns: Columns,
    /// The others, rising.
    pub(crate) missed: Vec<u32>,
}

impl Hits {
    fn for_items(n: usize) -> Hits {
        Hits {
            columns: Columns::with_capacity(n),
            missed: Vec::new(),
        }
    }

    fn none(frame: &Frame) -> Hits {
        Hits {
            columns: Columns::default(),
            missed: (0..frame.len() as u32).collect(),
        }
    }
}

impl Node {
    /// Answers what it can of a checked frame.
    pub(crate) fn hit(self: &Arc<Self>, frame: &Frame) -> Hits {
        let table = self.table.guard();
        let session = self.session.load();
        let (Some(table), Some(session)) = (table.as_ref(), session.as_ref()) else {
            return Hits::none(frame);
        };
        let known = table.namespace(frame.namespace_name());
        let Some(namespace) = known.filter(|namespace| {
            let strict = frame.strict || namespace.spec.limits.strict;
            !strict && frame.len() <= FRAME_MAX && self.may_serve()
        }) else {
            return Hits::none(frame);
        };
        match frame.asks {
            Asks::Next => self.hit_next(frame, table, session, namespace),
            Asks::Current => self.hit_current(frame, table, session, namespace),
        }
    }

    fn hit_next(
        self: &Arc<Self>,
        frame: &Frame,
        table: &Arc<RoutingTable>,
        session: &Arc<Session>,
        namespace: &Namespace,
    ) -> Hits {
        let mut hits = Hits::for_items(frame.len());
        let (mut numbers, mut untouched) = (0, 0);
        let map = self.sections.map.pin();
        let mut entered = Entered::new(frame.len());
        let count_max = namespace.spec.count_max();
        let counted = frame.is_counted();
        let mut found = Found::none();
        for begin in (0..frame.len()).step_by(BLOCK) {
            if untouched > UNTOUCHED_MAX {
                hits.missed.extend(begin as u32..frame.len() as u32);
                break;
            }
            let n = BLOCK.min(frame.len() - begin);
            // Several times over the block, each with little to do for an item and nothing that orders
            // memory, so that what many items wait for is on its way at once: the sections, where the
            // counters are, the counters.
            for at in 0..n {
                let placed = place(frame, begin + at, namespace);
                found.loaded[at] = placed.and_then(|(section, index)| {
                    found.indices[at] = index;
                    entered.find(section, || {
                        let loaded = map.get(&section)?;
                        loaded.is_usual(table, session).then_some(loaded)
                    })
                });
            }
            if namespace.spec.geometry.kind() == Kind::Keyed {
                found.seek(frame, begin, n, namespace);
            }
            for at in 0..n {
                let loaded = found.loaded[at].filter(|_| untouched <= UNTOUCHED_MAX);
                found.spots[at] =
                    loaded.and_then(|l| l.section.spot(found.sought(at, &l.section)?));
                untouched += usize::from(loaded.is_some() && found.spots[at].is_none());
                found.loaded[at] = loaded.filter(|_| untouched <= UNTOUCHED_MAX);
            }
            let fetched = found.spots[..n].iter().flatten().map(Spot::fetch);
            black_box(fetched.fold(0, u32::wrapping_add));
            for at in 0..n {
                let i = begin + at;
                let (spot, index) = (&found.spots[at], found.indices[at]);
                let taken = found.loaded[at].and_then(|loaded| {
                    let count = frame.count(i).filter(|count| count.get() <= count_max)?;
                    let newer = frame.epoch(i) > loaded.fence.epoch.0;
                    if newer || !is_past(loaded, spot.as_ref(), frame.floor(i)) {
                        return None;
                    }
                    let range = match (spot, entered.adder(loaded)) {
                        (Some(spot), Some(adder)) => adder.next_spot(*spot, count),
                        (Some(spot), None) => spot.next(count),
                        (None, _) => with_key(frame, i, namespace, index, |key| {
                            loaded.section.next(key, count)
                        }),
                    };
                    Some((loaded, count, range.ok()?))
                });
                let Some((loaded, count, range)) = taken else {
                    hits.missed.push(i as u32);
                    continue;
                };
                debug_assert!(range.first > frame.floor(i), "counters never go back");
                if loaded.wants_raise() {
                    self.refill(loaded);
                }
                hits.columns.values.push(range.first);
                hits.columns.epochs.push(loaded.fence.epoch.0);
                if counted {
                    hits.columns.lasts.push(range.last);
                }
                numbers += u64::from(count.get());
            }
        }
        drop(entered);
        // After every number of the frame was taken: see above.
        let now = self.clock.now();
        if !session.serves(now) {
            self.counters.burned.add(numbers);
            self.lapsed.store(true, Relaxed);
            return Hits::none(frame);
        }
        let newest = self.table.guard();
        if let Some(newest) = newest.as_ref().filter(|newest| !Arc::ptr_eq(newest, table)) {
            numbers -= self.withdraw(frame, &mut hits, newest, session, namespace);
        }
        self.counters.nexts.add(hits.columns.values.len() as u64);
        self.counters.numbers.add(numbers);
        hits
    }

    /// The table changed while numbers were taken: withdraws those of slots that are not ours any
    /// more as they were, and tells how many numbers that burned.
    fn withdraw(
        &self,
        frame: &Frame,
        hits: &mut Hits,
        newest: &RoutingTable,
        session: &Session,
        namespace: &Namespace,
    ) -> u64 {
        let old = std::mem::take(hits);
        let (mut burned, mut at) = (0, 0);
        let mut missed = old.missed.into_iter().peekable();
        for i in 0..frame.len() {
            if missed.next_if_eq(&(i as u32)).is_some() {
                hits.missed.push(i as u32);
                continue;
            }
            let epoch = old.columns.epochs[at];
            let ours = place(frame, i, namespace).and_then(|(section, _)| {
                let route = newest.route(newest.slot_of(section))?;
                let owner = route.owner.as_ref()?;
                Some(route.epoch.0 == epoch && owner.session == session.id)
            });
            if ours == Some(true) {
                hits.columns.values.push(old.columns.values[at]);
                hits.columns.epochs.push(epoch);
                hits.columns.lasts.extend(old.columns.lasts.get(at));
            } else {
                burned += frame.count(i).map_or(0, |count| u64::from(count.get()));
                hits.missed.push(i as u32);
            }
            at += 1;
        }
        self.counters.burned.add(burned);
        burned
    }

    /// The same for `current`, which takes nothing: what fails the check is only asked again.
    fn hit_current(
        self: &Arc<Self>,
        frame: &Frame,
        table: &Arc<RoutingTable>,
        session: &Arc<Session>,
        namespace: &Namespace,
    ) -> Hits {
        let mut hits = Hits::for_items(frame.len());
        let mut untouched = 0;
        let map = self.sections.map.pin();
        for i in 0..frame.len() {
            let found = place(frame, i, namespace).and_then(|(section, index)| {
                let loaded = map.get(&section).filter(|_| untouched < UNTOUCHED_MAX)?;
                let current = frame.epoch(i) <= loaded.fence.epoch.0;
                let usual = current && loaded.is_usual(table, session);
                let (kind, value) = with_key(frame, i, namespace, index, |key| {
                    usual.then(|| loaded.current(key, namespace))
                })??;
                untouched += usize::from(kind != CurrentKind::Exact);
                Some((kind, value, loaded.fence.epoch))
            });
            match found {
                Some((kind, value, epoch)) => {
                    let answer = Answer::Current { kind, value, epoch };
                    hits.columns.push(&Ok(answer));
                }
                None => hits.missed.push(i as u32),
            }
        }
        // After everything was read, as above.
        let holds = session.serves(self.clock.now());
        let newest = self.table.guard();
        match newest.as_ref().filter(|newest| Arc::ptr_eq(newest, table)) {
            Some(_) if holds => hits,
            _ => Hits::none(frame),
        }
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

impl Loaded {
    /// Whether it belongs to this session and is current by this table.
    #[inline]
    fn is_usual(&self, table: &RoutingTable, session: &Arc<Session>) -> bool {
        self.is_current_at(table) && Arc::ptr_eq(&self.session, session)
    }
}

/// Whether every number to come of a key is above `floor`, seen without taking one: counters never go
/// back.
#[inline]
fn is_past(loaded: &Loaded, spot: Option<&Spot<'_>>, floor: u64) -> bool {
    floor == 0
        || match spot.map(Spot::current) {
            Some(Current::Touched(now)) => now >= floor,
            Some(Current::Untouched) | None => loaded.section.base() >= floor,
        }
}

/// Section of the i-th key, and of a uid the index in a dense one; None if it has no place in the
/// namespace.
#[inline]
fn place(frame: &Frame, i: usize, namespace: &Namespace) -> Option<(SectionKey, u32)> {
    let geometry = &namespace.spec.geometry;
    let (section, index) = match (geometry.kind(), frame.key(i)) {
        (Kind::Dense, KeyRef::Uid(uid)) => geometry.locate_uid(uid)?,
        (Kind::Dense, KeyRef::Key(_)) => return None,
        (Kind::Keyed, KeyRef::Uid(uid)) => {
            let mut text = [0; DECIMAL_MAX];
            (geometry.locate_key(decimal(uid, &mut text))?, 0)
        }
        (Kind::Keyed, KeyRef::Key(key)) => {
            let whole = (1..=KEY_MAX).contains(&key.len());
            (whole.then(|| geometry.locate_key(key))??, 0)
        }
    };
    let namespace = namespace.id;
    Some((SectionKey { namespace, section }, index))
}

/// Does something with the i-th key, whose place and index were found.
#[inline]
fn with_key<T>(
    frame: &Frame,
    i: usize,
    namespace: &Namespace,
    index: u32,
    then: impl FnOnce(Key<'_>) -> T,
) -> T {
    match (namespace.spec.geometry.kind(), frame.key(i)) {
        (Kind::Dense, _) => then(Key::Dense(index)),
        (Kind::Keyed, KeyRef::Uid(uid)) => then(Key::Keyed(decimal(uid, &mut [0; DECIMAL_MAX]))),
        (Kind::Keyed, KeyRef::Key(key)) => then(Key::Keyed(key)),
    }
}

/// Digits of the greatest u64.
const DECIMAL_MAX: usize = 20;

/// The decimal text of a uid, which is its key in a keyed namespace, without allocating.
fn decimal(uid: Uid, text: &mut [u8; DECIMAL_MAX]) -> &[u8] {
    let mut at = DECIMAL_MAX;
    let mut left = uid.0;
    loop {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            return &text[at..];
        }
    }
}

#[cfg(test)]
mod tests;
