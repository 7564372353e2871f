//! Versions 1 and 6: the time in 100 ns since 1582-10-15.
//!
//! Invariant: no two UUIDs of a process have one time. Schedule that breaks it: the clock is set
//! back, or two threads read one time; sequence and node are constants of the process, so the
//! UUIDs would be equal. So the time only rises.

use std::time::Duration;

use uuid::timestamp::UUID_TICKS_BETWEEN_EPOCHS;
use uuid::{Builder, Uuid};

use crate::rising_counter::RisingCounter;

/// The bit that no address of a network card has.
const MULTICAST: u8 = 1;

/// Maker of versions 1 and 6, whose time ends in the year 5236.
///
/// Node and sequence are random, 61 bits, and the node has the multicast bit, as RFC 9562 says for
/// nodes that are no hardware address: no UUID tells which machine made it. The clock may be set
/// back within one life; across a restart the random bits keep UUIDs apart.
#[derive(Debug)]
pub struct GregorianUuids {
    last_tick: RisingCounter,
    sequence: u16,
    node: [u8; 6],
}

impl GregorianUuids {
    /// Makes a maker with a random node and sequence; a process needs one.
    pub fn new(mut random: impl FnMut() -> u64) -> Self {
        let [a, b, c, d, e, f, high, low] = random().to_be_bytes();
        Self {
            last_tick: RisingCounter::default(),
            sequence: u16::from_be_bytes([high, low]) & 0x3fff,
            node: [a | MULTICAST, b, c, d, e, f],
        }
    }

    /// Makes a version 1, whose text and bytes do not sort by time.
    #[inline]
    pub fn make_v1(&self, since_unix_epoch: Duration) -> Uuid {
        let tick = self.tick(since_unix_epoch);
        Builder::from_gregorian_timestamp(tick, self.sequence, &self.node).into_uuid()
    }

    /// Makes a version 6, which is version 1 in an order that sorts by time.
    #[inline]
    pub fn make_v6(&self, since_unix_epoch: Duration) -> Uuid {
        let tick = self.tick(since_unix_epoch);
        Builder::from_sorted_gregorian_timestamp(tick, self.sequence, &self.node).into_uuid()
    }

    #[inline]
    fn tick(&self, since_unix_epoch: Duration) -> u64 {
        let now = UUID_TICKS_BETWEEN_EPOCHS + (since_unix_epoch.as_nanos() / 100) as u64;
        self.last_tick.next(|_| now)
    }
}
