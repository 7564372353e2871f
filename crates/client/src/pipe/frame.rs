//! A frame while it is being filled: columns, and who waits for which part of them.

use bytes::Bytes;
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::v1::{self, pipe_request};
use tokio::time::Instant;

use crate::item::ItemKey;
use crate::pipe::flight::{Flight, Waiter};

/// Most items of a frame: what a server answers at one go.
pub(crate) const FRAME_MAX: usize = 1_024;

/// What the items of one frame have in common.
#[derive(Clone, Copy)]
pub(crate) struct Lot<'a> {
    pub(crate) asks: Asks,
    pub(crate) namespace: &'a str,
    /// Keys, not uids.
    pub(crate) keyed: bool,
    pub(crate) strict: bool,
    /// Version of the table they were placed by.
    pub(crate) version: u64,
}

/// Which of the two a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    Next,
    Current,
}

/// One item.
#[derive(Clone, Copy)]
pub(crate) struct Parcel<'a> {
    pub(crate) key: ItemKey<'a>,
    /// Numbers it takes; 0 for `current`.
    pub(crate) count: u32,
    /// 0: none.
    pub(crate) floor: u64,
    /// Highest epoch seen of the slot, 0: none.
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
    /// For about so many items of so many callers.
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

    /// Whether more items of this lot may join.
    pub(super) fn takes(&self, lot: &Lot<'_>, items: usize, weight: u64, most: usize) -> bool {
        self.len() + items <= most
            && self.weight + weight <= NUMBERS_MAX
            && self.version == lot.version
            && (self.asks, self.keyed, self.strict) == (lot.asks, lot.keyed, lot.strict)
            && self.namespace == lot.namespace
    }

    /// Adds items: mostly all are alike but for their keys.
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

    /// Notes how many numbers they take, who waits for them, and until when.
    pub(super) fn await_by(&mut self, weight: u64, waiter: Waiter, until: Instant) {
        self.weight += weight;
        self.waiters.push(waiter);
        self.until = self.until.max(until);
    }

    /// The frame as it is sent, and as it is waited for.
    pub(super) fn seal(self, id: u64) -> (v1::PipeRequest, Flight) {
        let items = self.len();
        // What all have in common and a server takes for granted is left out.
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
                // Named once, when the pipe was opened.
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

    /// What all have; None: not all the same.
    #[inline]
    fn same(&self) -> Option<T> {
        match self {
            Column::Same(same) => Some(*same),
            Column::Each(_) => None,
        }
    }

    /// The entries of the next items, of which the first is item `at`.
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

    /// Entries of `items` items; none if all are `usual`.
    fn unless_all(self, items: usize, usual: T) -> Vec<T> {
        match self {
            Column::Same(same) if same == usual => Vec::new(),
            Column::Same(same) => vec![same; items],
            Column::Each(each) => each,
        }
    }
}
