//! Cost of a number in memory, next to the least it could cost: an atomic addition at a random
//! place.
//!
//! `cargo bench -p seqsvr-core`; compare within one run only. `bare` is the yardstick of each
//! group.

#![expect(
    clippy::expect_used,
    reason = "a window that does not reach is a mistake of the bench"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use divan::Bencher;
use divan::counter::ItemsCount;
use seqsvr_core::geometry::slot_of;
use seqsvr_core::ids::{NamespaceId, SectionId, SectionKey};
use seqsvr_core::section::{CounterKey, CounterRef, Section, SectionGrant};

const ONE: NonZeroU32 = NonZeroU32::MIN;
/// Items of a frame.
const FRAME: usize = 1_024;
/// Items looked up together, as the hot path does.
const BLOCK: usize = 64;
/// Counters: a section that fits into a cache, and one that does not.
const SIZES: [u32; 2] = [100_000, 16_000_000];

fn main() {
    divan::main();
}

/// Returns indices below `size`, sufficiently random.
fn indices(size: u32) -> Vec<u32> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32 % size
    };
    (0..64 * FRAME).map(|_| next()).collect()
}

fn open() -> SectionGrant {
    SectionGrant {
        generation: 1,
        base: 0,
        max_seq: 1 << 40,
        first: Some(1),
        stride: 1,
    }
}

/// Makes a dense section of which every uid was touched.
fn touched(size: u32) -> Section {
    let section = Section::dense(open(), size);
    for index in 0..size {
        section
            .next(CounterKey::Dense(index), ONE)
            .expect("the window reaches");
    }
    section
}

/// Runs `frame` on one frame of indices after the other.
fn frames(bencher: Bencher<'_, '_>, size: u32, frame: impl Fn(&[u32]) -> u64 + Sync) {
    let indices = indices(size);
    let mut at = (0..indices.len() / FRAME).cycle();
    bencher
        .counter(ItemsCount::new(FRAME))
        .with_inputs(|| at.next().unwrap_or_default() * FRAME)
        .bench_local_values(|at| black_box(frame(&indices[at..at + FRAME])));
}

#[divan::bench(args = SIZES)]
fn bare(bencher: Bencher<'_, '_>, size: u32) {
    let counters: Vec<AtomicU32> = (0..size).map(|_| AtomicU32::new(0)).collect();
    frames(bencher, size, |frame| {
        let added = frame
            .iter()
            .map(|i| counters[*i as usize].fetch_add(1, Relaxed));
        added.map(u64::from).sum()
    });
}

/// Takes one number after the other; each waits for memory on its own.
#[divan::bench(args = SIZES)]
fn one_by_one(bencher: Bencher<'_, '_>, size: u32) {
    let section = touched(size);
    frames(bencher, size, |frame| {
        let taken = frame
            .iter()
            .filter_map(|i| section.next(CounterKey::Dense(*i), ONE).ok());
        taken.map(|range| range.last).sum()
    });
}

/// Takes numbers as the hot path does: finds and fetches all counters of a block, then adds to
/// them.
#[divan::bench(args = SIZES)]
fn in_blocks(bencher: Bencher<'_, '_>, size: u32) {
    let section = touched(size);
    frames(bencher, size, |frame| {
        let mut sum = 0;
        for block in frame.chunks(BLOCK) {
            let mut spots: [Option<CounterRef<'_>>; BLOCK] = [None; BLOCK];
            for (i, spot) in block.iter().zip(&mut spots) {
                *spot = section
                    .prepare_lookup(CounterKey::Dense(*i))
                    .and_then(|s| section.find_counter(s));
            }
            let found = || spots.iter().flatten();
            black_box(found().fold(0u32, |sum, spot| sum.wrapping_add(spot.prefetch_counter())));
            let taken = found().filter_map(|spot| spot.next(ONE).ok());
            sum += taken.map(|range| range.last).sum::<u64>();
        }
        sum
    });
}

/// Keys of 20 bytes instead of uids.
#[divan::bench(args = [100_000, 1_000_000])]
fn keyed(bencher: Bencher<'_, '_>, size: u32) {
    let section = Section::keyed(open(), [1, 2]);
    let keys: Vec<String> = (0..size).map(|i| format!("{i:020}")).collect();
    for key in &keys {
        section
            .next(CounterKey::Keyed(key.as_bytes()), ONE)
            .expect("there is room");
    }
    frames(bencher, size, |frame| {
        let key = |i: &u32| CounterKey::Keyed(keys[*i as usize].as_bytes());
        let taken = frame.iter().filter_map(|i| section.next(key(i), ONE).ok());
        taken.map(|range| range.last).sum()
    });
}

#[divan::bench]
fn slot(bencher: Bencher<'_, '_>) {
    frames(bencher, 42_950, |frame| {
        let slot = |section: &u32| {
            let key = SectionKey {
                namespace: NamespaceId(1),
                section: SectionId(*section),
            };
            u64::from(slot_of(key, 1_024).0)
        };
        frame.iter().map(slot).sum()
    });
}
