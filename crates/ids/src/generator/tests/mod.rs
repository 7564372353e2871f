//! Tests of the generators, with made-up clocks.

mod clocked;
mod exact_uniqueness;
mod policies;
mod splicer;
mod worker_generator;
mod worker_sources;

use std::collections::HashSet;

use proptest::prelude::*;

use super::{Run, SequenceStart, TickGrid};

/// Makes a grid; the arguments are those of a test, which are valid.
#[expect(clippy::unwrap_used, reason = "helper of tests")]
fn grid(time_bits: u32, capacity: u64, lane_bits: u32) -> TickGrid {
    TickGrid::new(time_bits, capacity, lane_bits).unwrap()
}

/// Returns every way to begin a tick.
fn sequence_start() -> impl Strategy<Value = SequenceStart> {
    prop_oneof![
        Just(SequenceStart::Zero),
        Just(SequenceStart::Carry),
        (1..20u32, any::<u64>()).prop_map(|(below, key)| SequenceStart::Random { below, key }),
    ]
}

/// All positions handed out in a test.
#[derive(Default)]
struct SeenPositions(HashSet<(u8, u64)>);

impl SeenPositions {
    /// Adds a run; fails if a position is there already.
    fn add(&mut self, run: Run) {
        for position in run.first..run.first + run.count {
            let is_new = self.0.insert((run.lane, position));
            assert!(is_new, "repeated: lane {}, {position}", run.lane);
        }
    }
}
