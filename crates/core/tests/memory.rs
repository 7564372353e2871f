//! What counters cost, counted at the allocator: 10 million neighbouring uids under 5 bytes each,
//! a million random keys over 4,096 sections under 64 bytes each, empty sections under 1 KiB, and
//! no allocation at all for a key already touched.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::alloc::System;
use std::num::NonZeroU32;

use seqsvr_core::section::{Key, Open, Section};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OPEN: Open = Open {
    generation: 1,
    base: 0,
    max_seq: 10_000,
    first: Some(1),
    stride: 1,
};
const ONE: NonZeroU32 = NonZeroU32::MIN;
const SECTIONS: usize = 4_096;
const KEYS: usize = 1_000_000;

/// One test, for the allocator counts the whole process.
#[test]
fn counters_are_small() {
    dense();
    let keyed = keyed();
    next_allocates_nothing(&keyed);
}

fn held(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

/// How far the section's own account may be off: it is what a memory budget goes by.
fn account_is_true(sections: &[Section], measured: usize) {
    let told: usize = sections.iter().map(Section::bytes).sum();
    let off = told.abs_diff(measured) as f64 / measured as f64;
    assert!(off < 0.05, "told {told}, measured {measured}");
}

fn dense() {
    const UIDS: usize = 10_000_000;
    const SIZE: u32 = 100_000;
    let region = Region::new(ALLOCATOR);
    let sections: Vec<Section> = (0..UIDS / SIZE as usize)
        .map(|_| Section::dense(OPEN, SIZE))
        .collect();
    let empty = held(&region) / sections.len();
    for section in &sections {
        for index in 0..SIZE {
            section.next(Key::Dense(index), ONE).unwrap();
        }
    }
    let bytes = held(&region);
    let each = bytes as f64 / UIDS as f64;
    println!("dense: {each:.3} bytes a uid, {empty} bytes an untouched section");
    assert!(each < 5.0, "{each} bytes a uid");
    account_is_true(&sections, bytes);
}

fn keyed() -> Vec<Section> {
    let region = Region::new(ALLOCATOR);
    let sections: Vec<Section> = (0..SECTIONS)
        .map(|_| Section::keyed(OPEN, [1, 2]))
        .collect();
    let empty = held(&region) / SECTIONS;
    for section in &sections {
        section.next(Key::Keyed(b"only"), ONE).unwrap();
    }
    let one = held(&region) / SECTIONS;
    for id in ids().take(KEYS) {
        section_of(&sections, id)
            .next(Key::Keyed(&id.to_le_bytes()), ONE)
            .unwrap();
    }
    let bytes = held(&region);
    let each = bytes as f64 / KEYS as f64;
    println!("keyed: {each:.1} bytes a key, {empty} bytes an empty section, {one} with one key");
    assert!(each < 64.0, "{each} bytes a key");
    assert!(empty < 1_024, "{empty} bytes an empty section");
    account_is_true(&sections, bytes);
    sections
}

fn next_allocates_nothing(sections: &[Section]) {
    let region = Region::new(ALLOCATOR);
    for id in ids().take(1_000) {
        let id_bytes = id.to_le_bytes();
        let section = section_of(sections, id);
        section.next(Key::Keyed(&id_bytes), ONE).unwrap();
        section.current(Key::Keyed(&id_bytes)).unwrap();
    }
    assert_eq!(region.change().allocations, 0);
}

fn section_of(sections: &[Section], id: u64) -> &Section {
    &sections[(id >> 32) as usize % sections.len()]
}

/// Random-looking 64-bit ids (splitmix64).
fn ids() -> impl Iterator<Item = u64> {
    (1u64..).map(|i| {
        let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}
