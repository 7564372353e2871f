//! Sections of one kind after sections of another kind: the memory of counters stays within its
//! limit.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::VecDeque;
use std::num::NonZeroU32;

use seqsvr_core::section::{CounterKey, Section, SectionGrant, add_memory_limit, counter_memory};

const OPEN: SectionGrant = SectionGrant {
    generation: 1,
    base: 0,
    max_seq: 10_000,
    first: Some(1),
    stride: 1,
};
const ONE: NonZeroU32 = NonZeroU32::MIN;
const LIMIT: usize = 8 << 20;
/// Bytes that one step of a phase touches before sections are closed.
const SLACK: usize = 4 << 20;

/// Keeps sections within the limit by closing the oldest.
#[derive(Default)]
struct Loaded {
    sections: VecDeque<Section>,
}

impl Loaded {
    fn close_sections_above_limit(&mut self) {
        while self.total_bytes() > LIMIT {
            self.sections.pop_front().unwrap();
        }
    }

    fn total_bytes(&self) -> usize {
        self.sections.iter().map(Section::memory_bytes).sum()
    }

    /// Touches uids of many sections in turn, so that neighboring chunks belong to different
    /// sections.
    fn touch_dense(&mut self) {
        for _ in 0..16 {
            let all: Vec<_> = (0..25).map(|_| Section::dense(OPEN, 100_000)).collect();
            for chunk in 0..20 {
                for section in &all {
                    let taken = section.next(CounterKey::Dense(chunk * 1_024), ONE).unwrap();
                    assert_eq!(taken.first, 1, "the memory was not zero");
                }
            }
            // Closed in another order than they were opened.
            let (even, odd): (Vec<_>, Vec<_>) =
                all.into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
            self.sections
                .extend(even.into_iter().chain(odd).map(|(_, section)| section));
            self.close_sections_above_limit();
        }
    }

    /// Touches keyed sections whose newest levels need ever larger pieces.
    fn touch_keyed(&mut self, keys: u64) {
        let mut bytes = 0;
        while bytes < LIMIT + LIMIT / 4 {
            let section = Section::keyed(OPEN, [1, 2]);
            for key in 0..keys {
                let taken = section
                    .next(CounterKey::Keyed(&key.to_le_bytes()), ONE)
                    .unwrap();
                assert_eq!(taken.first, 1, "the memory was not zero");
            }
            for key in 0..keys {
                let taken = section
                    .next(CounterKey::Keyed(&key.to_le_bytes()), ONE)
                    .unwrap();
                assert_eq!(taken.first, 2, "another key's counter");
            }
            bytes += section.memory_bytes();
            self.sections.push_back(section);
            self.close_sections_above_limit();
        }
    }
}

/// Schedule: dense load up to the budget, then keyed load whose levels need larger pieces, and so
/// on.
#[test]
fn memory_of_alternating_kinds_stays_within_the_limit() {
    add_memory_limit(LIMIT as u64);
    let mut loaded = Loaded::default();
    for round in 0..3 {
        loaded.touch_dense();
        let dense = counter_memory();
        loaded.touch_keyed(5_000 << (2 * round));
        let keyed = counter_memory();
        println!("round {round}: {dense:?} after dense, {keyed:?} after keyed load");
        for now in [dense, keyed] {
            assert!(now.mapped <= LIMIT + SLACK, "{now:?}");
        }
    }
}
