//! A frame while it is being filled: columns, and who waits for which part of them.

use bytes::Bytes;
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::v1::{self, pipe_request};
use tokio::time::Instant;

use crate::key::Key;
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
    pub(crate) key: &'a Key,
    /// Numbers it takes; 0 for `current`.
    pub(crate) count: u32,
    /// 0: none.
    pub(crate) floor: u64,
    /// Highest epoch seen of the slot, 0: none.
    pub(crate) epoch: u64,
}

impl Parcel<'_> {
    pub(crate) fn weight(&self) -> u64 {
        u64::from(self.count)
    }
}

/// A frame being filled.
pub(super) struct Frame {
    asks: Asks,
    namespace: String,
    keyed: bool,
    strict: bool,
    version: u64,
    uids: Vec<u64>,
    keys: Vec<Bytes>,
    counts: Vec<u32>,
    floors: Vec<u64>,
    epochs: Vec<u64>,
    weight: u64,
    pub(super) waiters: Vec<Waiter>,
    /// When the last of its callers gives up.
    pub(super) until: Instant,
}

impl Frame {
    /// For about so many items.
    pub(super) fn new(lot: &Lot<'_>, items: usize) -> Frame {
        let (uids, keys) = if lot.keyed { (0, items) } else { (items, 0) };
        Frame {
            asks: lot.asks,
            namespace: lot.namespace.to_owned(),
            keyed: lot.keyed,
            strict: lot.strict,
            version: lot.version,
            uids: Vec::with_capacity(uids),
            keys: Vec::with_capacity(keys),
            counts: Vec::with_capacity(items),
            floors: Vec::with_capacity(items),
            epochs: Vec::with_capacity(items),
            weight: 0,
            waiters: Vec::new(),
            until: Instant::now(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.epochs.len()
    }

    /// Whether more items of this lot may join.
    pub(super) fn takes(&self, lot: &Lot<'_>, items: usize, weight: u64, most: usize) -> bool {
        self.len() + items <= most
            && self.weight + weight <= NUMBERS_MAX
            && self.version == lot.version
            && (self.asks, self.keyed, self.strict) == (lot.asks, lot.keyed, lot.strict)
            && self.namespace == lot.namespace
    }

    #[inline]
    pub(super) fn push(&mut self, parcel: Parcel<'_>) {
        match parcel.key {
            Key::Uid(uid) => self.uids.push(*uid),
            Key::Key(key) => self.keys.push(key.clone()),
        }
        self.counts.push(parcel.count);
        self.floors.push(parcel.floor);
        self.epochs.push(parcel.epoch);
        self.weight += parcel.weight();
    }

    /// The frame as it is sent, and as it is waited for.
    pub(super) fn seal(mut self, id: u64) -> (v1::PipeRequest, Flight) {
        let items = self.len();
        let counted = self.counts.iter().any(|count| *count != 1);
        if !counted {
            self.counts = Vec::new();
        }
        if self.floors.iter().all(|floor| *floor == 0) {
            self.floors = Vec::new();
        }
        if self.epochs.iter().all(|epoch| *epoch == self.epochs[0]) {
            // One for all, or none if none was seen.
            self.epochs.truncate(usize::from(self.epochs[0] > 0));
        }
        let left = self.until.saturating_duration_since(Instant::now());
        let flight = Flight::new(self.asks, items, counted, self.waiters, self.until);
        let ask = match self.asks {
            Asks::Next => pipe_request::Ask::Next(v1::NextManyRequest {
                namespace: self.namespace,
                uids: self.uids,
                keys: self.keys,
                counts: self.counts,
                floors: self.floors,
                epochs: self.epochs,
                strict: self.strict,
                table_version: self.version,
                forwarded: false,
            }),
            Asks::Current => pipe_request::Ask::Current(v1::CurrentManyRequest {
                namespace: self.namespace,
                uids: self.uids,
                keys: self.keys,
                strict: self.strict,
                table_version: self.version,
                forwarded: false,
                epochs: self.epochs,
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
