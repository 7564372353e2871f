//! A frame while it is being filled: columns, and which callers wait for which part of them.

use bytes::Bytes;
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::v1::{self, pipe_request};
use tokio::time::Instant;

use crate::item::ItemKey;
use crate::pipe::flight::{Flight, Waiter};

/// Most items of a frame: as many as a server answers at one time.
pub(crate) const FRAME_MAX: usize = 1_024;

/// What the items of one frame have in common.
#[derive(Clone, Copy)]
pub(crate) struct Lot<'a> {
    pub(crate) asks: Asks,
    pub(crate) namespace: &'a str,
    /// The items are keys, not uids.
    pub(crate) keyed: bool,
    pub(crate) strict: bool,
    /// Version of the table by which they were placed.
    pub(crate) version: u64,
}

/// The kind of call of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Next,
    Current,
}

/// One item.
#[derive(Clone, Copy)]
pub(crate) struct Parcel<'a> {
    pub(crate) key: ItemKey<'a>,
    /// Numbers that the item takes; 0 for `current`.
    pub(crate) count: u32,
    /// Last number that the caller has seen; 0: none.
    pub(crate) floor: u64,
    /// Highest epoch seen of the slot; 0: none.
    pub(crate) epoch: u64,
}

/// A frame being filled.
pub(super) struct Frame {
    asks: Asks,
    namespace: String,
    keyed: bool,
    strict: bool,
    version: u64,
    items: usize,
    uids: Vec<u64>,
    keys: Vec<Bytes>,
    counts: Column<u32>,
    floors: Column<u64>,
    epochs: Column<u64>,
    weight: u64,
    pub(super) waiters: Vec<Waiter>,
    /// When the last of its callers gives up.
    until: Instant,
}

impl Frame {
    /// Creates a frame with room for about so many items of so many callers.
    pub(super) fn new(lot: &Lot<'_>, items: usize, callers: usize) -> Frame {
        let (uids, keys) = if lot.keyed { (0, items) } else { (items, 0) };
        Frame {
            asks: lot.asks,
            namespace: lot.namespace.to_owned(),
            keyed: lot.keyed,
            strict: lot.strict,
            version: lot.version,
            items: 0,
            uids: Vec::with_capacity(uids),
            keys: Vec::with_capacity(keys),
            counts: Column::new(),
            floors: Column::new(),
            epochs: Column::new(),
            weight: 0,
            waiters: Vec::with_capacity(callers),
            until: Instant::now(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items
    }

    /// Returns whether more items of this lot may join.
    pub(super) fn takes(&self, lot: &Lot<'_>, items: usize, weight: u64, most: usize) -> bool {
        self.len() + items <= most
            && self.weight + weight <= NUMBERS_MAX
            && self.version == lot.version
            && (self.asks, self.keyed, self.strict) == (lot.asks, lot.keyed, lot.strict)
            && self.namespace == lot.namespace
    }

    /// Adds items: mostly all are alike except for their keys.
    #[inline]
    pub(super) fn extend<'p>(
        &mut self,
        parcels: impl ExactSizeIterator<Item = Parcel<'p>> + Clone,
    ) {
        let (at, n) = (self.items, parcels.len());
        if at == 0
            && let Some(first) = parcels.clone().next()
        {
            self.counts = Column::Same(first.count);
            self.floors = Column::Same(first.floor);
            self.epochs = Column::Same(first.epoch);
        }
        let same = (self.counts.same(), self.floors.same(), self.epochs.same());
        let mut alike = true;
        for parcel in parcels.clone() {
            alike &= same == (Some(parcel.count), Some(parcel.floor), Some(parcel.epoch));
            match parcel.key {
                ItemKey::Uid(uid) => self.uids.push(uid),
                ItemKey::Key(key) => self.keys.push(key.clone()),
            }
        }
        if !alike {
            self.counts.extend(at, parcels.clone().map(|p| p.count));
            self.floors.extend(at, parcels.clone().map(|p| p.floor));
            self.epochs.extend(at, parcels.map(|p| p.epoch));
        }
        self.items += n;
    }

    /// Notes how many numbers the items take, which caller waits for them, and until when.
    pub(super) fn await_by(&mut self, weight: u64, waiter: Waiter, until: Instant) {
        self.weight += weight;
        self.waiters.push(waiter);
        self.until = self.until.max(until);
    }

    /// Returns the frame in the form that is sent, and in the form that waits for its answer.
    pub(super) fn seal(self, id: u64) -> (v1::PipeRequest, Flight) {
        let items = self.len();
        // What all items have in common and a server assumes is left out.
        let counts = self.counts.unless_all(items, 1);
        let counted = !counts.is_empty();
        let floors = self.floors.unless_all(items, 0);
        let epochs = match self.epochs {
            // One for all, or none if none was seen.
            Column::Same(0) => Vec::new(),
            Column::Same(epoch) => vec![epoch],
            Column::Each(epochs) => epochs,
        };
        let left = self.until.saturating_duration_since(Instant::now());
        let flight = Flight::new(self.asks, items, counted, self.waiters, self.until);
        let ask = match self.asks {
            Asks::Next => pipe_request::Ask::Next(v1::NextManyRequest {
                namespace: self.namespace,
                uids: self.uids,
                keys: self.keys,
                counts,
                floors,
                epochs,
                strict: self.strict,
                table_version: self.version,
                forwarded: false,
                // The cluster is named once, when the pipe is opened.
                cluster_tag: 0,
            }),
            Asks::Current => pipe_request::Ask::Current(v1::CurrentManyRequest {
                namespace: self.namespace,
                uids: self.uids,
                keys: self.keys,
                strict: self.strict,
                table_version: self.version,
                forwarded: false,
                epochs,
                cluster_tag: 0,
            }),
        };
        let request = v1::PipeRequest {
            id,
            timeout_ms: u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1),
            ask: Some(ask),
        };
        (request, flight)
    }
}

/// A column that mostly has the same entry for all items.
enum Column<T> {
    Same(T),
    Each(Vec<T>),
}

impl<T: Copy + Default + PartialEq> Column<T> {
    fn new() -> Column<T> {
        Column::Same(T::default())
    }

    /// Returns the entry that all items have; None: not all have the same.
    #[inline]
    fn same(&self) -> Option<T> {
        match self {
            Column::Same(same) => Some(*same),
            Column::Each(_) => None,
        }
    }

    /// Adds the entries of the next items, of which the first is item `at`.
    fn extend(&mut self, at: usize, entries: impl Iterator<Item = T> + Clone) {
        if let Column::Same(same) = self {
            let same = *same;
            if entries.clone().all(|entry| entry == same) {
                return;
            }
            *self = Column::Each(vec![same; at]);
        }
        if let Column::Each(each) = self {
            each.extend(entries);
        }
    }

    /// Returns the entries of `items` items; none if all are `usual`.
    fn unless_all(self, items: usize, usual: T) -> Vec<T> {
        match self {
            Column::Same(same) if same == usual => Vec::new(),
            Column::Same(same) => vec![same; items],
            Column::Each(each) => each,
        }
    }
}
