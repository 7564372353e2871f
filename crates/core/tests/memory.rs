//! Cost of counters. Dense counters, by the resident memory of the process: under 5 bytes a uid for
//! 50 million neighboring ones, and nothing more when other sections come after them. Keyed
//! counters likewise: a million random keys over 4,096 sections under 64 bytes each. Empty
//! sections, counted at the allocator: under 1 KiB. No allocation at all for a key already touched.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::alloc::System;
use std::num::NonZeroU32;

use seqsvr_core::section::{CounterKey, Section, SectionGrant};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const OPEN: SectionGrant = SectionGrant {
    generation: 1,
    base: 0,
    max_seq: 10_000,
    first: Some(1),
    stride: 1,
};
const ONE: NonZeroU32 = NonZeroU32::MIN;
const SECTIONS: usize = 4_096;
const KEYS: usize = 1_000_000;

/// All checks are one test, because the allocator counts the whole process.
#[test]
fn counter_memory_matches_its_account() {
    let keyed = check_keyed_memory();
    check_dense_memory();
    check_next_allocates_nothing(&keyed);
}

fn held_bytes(region: &Region<'_, System>) -> usize {
    let change = region.change();
    change.bytes_allocated - change.bytes_deallocated
}

/// Checks that the sections' own account differs by less than 5 %: a memory budget relies on it.
fn check_account(sections: &[Section], measured: usize) {
    let reported: usize = sections.iter().map(Section::memory_bytes).sum();
    let off = reported.abs_diff(measured) as f64 / measured as f64;
    assert!(off < 0.05, "reported {reported}, measured {measured}");
}

fn check_dense_memory() {
    const UIDS: usize = 50_000_000;
    const SIZE: u32 = 100_000;
    let before = resident_bytes();
    let sections = make_touched_sections(UIDS / SIZE as usize, SIZE);
    let bytes = resident_bytes() - before;
    let each = bytes as f64 / UIDS as f64;
    println!("dense: {each:.3} bytes a uid");
    assert!(each < 5.0, "{each} bytes a uid");
    check_account(&sections, bytes);
    drop(sections);
    let again = make_touched_sections(UIDS / SIZE as usize, SIZE);
    let more = (resident_bytes() - before).saturating_sub(bytes);
    assert!(more < bytes / 20, "{more} bytes more for as many again");
    drop(again);
}

/// Makes sections with a touched uid in each page of memory, so that all pages are resident.
fn make_touched_sections(sections: usize, size: u32) -> Vec<Section> {
    let first =
        |section: &Section, index| section.next(CounterKey::Dense(index), ONE).unwrap().first;
    let all: Vec<Section> = (0..sections).map(|_| Section::dense(OPEN, size)).collect();
    for section in &all {
        for index in (0..size).step_by(256) {
            assert_eq!(first(section, index), 1, "never touched in this section");
            assert_eq!(first(section, index), 2);
        }
    }
    all
}

/// Returns the bytes of this process in memory.
fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib * 1024
}

fn check_keyed_memory() -> Vec<Section> {
    let (region, before) = (Region::new(ALLOCATOR), resident_bytes());
    let sections: Vec<Section> = (0..SECTIONS)
        .map(|_| Section::keyed(OPEN, [1, 2]))
        .collect();
    let empty = held_bytes(&region) / SECTIONS;
    for section in &sections {
        section.next(CounterKey::Keyed(b"only"), ONE).unwrap();
    }
    let one = held_bytes(&region) / SECTIONS;
    for id in random_ids().take(KEYS) {
        section_of(&sections, id)
            .next(CounterKey::Keyed(&id.to_le_bytes()), ONE)
            .unwrap();
    }
    let bytes = resident_bytes() - before;
    let each = bytes as f64 / KEYS as f64;
    println!("keyed: {each:.1} bytes a key, {empty} bytes an empty section, {one} with one key");
    assert!(each < 64.0, "{each} bytes a key");
    assert!(empty < 1_024, "{empty} bytes an empty section");
    check_account(&sections, bytes);
    sections
}

fn check_next_allocates_nothing(sections: &[Section]) {
    let region = Region::new(ALLOCATOR);
    for id in random_ids().take(1_000) {
        let id_bytes = id.to_le_bytes();
        let section = section_of(sections, id);
        section.next(CounterKey::Keyed(&id_bytes), ONE).unwrap();
        section.current(CounterKey::Keyed(&id_bytes)).unwrap();
    }
    assert_eq!(region.change().allocations, 0);
}

fn section_of(sections: &[Section], id: u64) -> &Section {
    &sections[(id >> 32) as usize % sections.len()]
}

/// Returns random-looking 64-bit ids (splitmix64).
fn random_ids() -> impl Iterator<Item = u64> {
    (1u64..).map(|i| {
        let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}
