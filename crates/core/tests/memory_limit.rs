//! Sections have at most the limit of the process and its slack, for any number of touched keys.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroU32;

use seqsvr_core::section::{Key, Open, Range, Refusal, Section, add_memory_limit, memory};

const OPEN: Open = Open {
    generation: 1,
    base: 0,
    max_seq: 10_000,
    first: Some(1),
    stride: 1,
};
const LIMIT: usize = 8 << 20;
/// The smallest slack there is.
const SLACK: usize = 64 << 20;
/// Uids of a section, and its bytes when all are touched.
const SIZE: u32 = 100_000;
const CHUNK: usize = 1_024;

fn next(section: &Section, key: Key<'_>) -> Result<Range, Refusal> {
    section.next(key, NonZeroU32::MIN)
}

fn in_use() -> usize {
    memory().mapped - memory().free
}

/// Schedule: callers touch every uid of more sections than there is memory for, and none is closed.
#[test]
fn above_limit_and_slack_no_key_is_touched_until_a_section_is_closed() {
    add_memory_limit(LIMIT as u64);
    let mut sections = Vec::new();
    let refused = loop {
        let section = Section::dense(OPEN, SIZE);
        let mut uids = (0..SIZE).step_by(CHUNK);
        let refused = uids.find_map(|uid| next(&section, Key::Dense(uid)).err());
        sections.push(section);
        assert!(in_use() <= LIMIT + SLACK, "{:?}", memory());
        if let Some(refusal) = refused {
            break refusal;
        }
    };
    assert_eq!(refused, Refusal::NoMemory);
    assert!(in_use() > LIMIT + SLACK - 4 * CHUNK);
    assert!(memory().is_tight());

    // A key that already has a counter is served; a keyed section gets no large level either.
    assert_eq!(next(&sections[0], Key::Dense(0)).unwrap().first, 2);
    let keyed = Section::keyed(OPEN, [1, 2]);
    let touched =
        (0..10_000_u32).find_map(|key| next(&keyed, Key::Keyed(&key.to_le_bytes())).err());
    assert_eq!(touched, Some(Refusal::NoMemory));
    assert_eq!(next(&keyed, Key::Keyed(&[0; 4])).unwrap().first, 2);

    // Two closed sections make room for as much.
    sections.truncate(sections.len() - 2);
    let again = Section::dense(OPEN, SIZE);
    for uid in (0..SIZE).step_by(CHUNK) {
        assert_eq!(next(&again, Key::Dense(uid)).unwrap().first, 1);
    }
    sections.truncate(sections.len() / 2);
    assert!(!memory().is_tight());
}
