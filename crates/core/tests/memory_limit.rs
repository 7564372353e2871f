//! Sections have at most the limit of the process and its slack, for any number of touched keys.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::num::NonZeroU32;

use seqsvr_core::section::{
    CounterKey, NumberRange, Section, SectionGrant, TakeError, add_memory_limit, counter_memory,
};

const OPEN: SectionGrant = SectionGrant {
    generation: 1,
    base: 0,
    max_seq: 10_000,
    first: Some(1),
    stride: 1,
};
const LIMIT: usize = 8 << 20;
/// Smallest slack above a limit.
const SLACK: usize = 64 << 20;
/// Uids of a section, and its bytes when all are touched.
const SIZE: u32 = 100_000;
const CHUNK: usize = 1_024;

fn take_next(section: &Section, key: CounterKey<'_>) -> Result<NumberRange, TakeError> {
    section.next(key, NonZeroU32::MIN)
}

fn bytes_in_use() -> usize {
    counter_memory().mapped - counter_memory().free
}

/// Schedule: callers touch every uid of more sections than there is memory for, and none is closed.
#[test]
fn memory_above_limit_and_slack_waits_for_a_closed_section() {
    add_memory_limit(LIMIT as u64);
    let mut sections = Vec::new();
    let rejection = loop {
        let section = Section::dense(OPEN, SIZE);
        let mut uids = (0..SIZE).step_by(CHUNK);
        let error = uids.find_map(|uid| take_next(&section, CounterKey::Dense(uid)).err());
        sections.push(section);
        assert!(bytes_in_use() <= LIMIT + SLACK, "{:?}", counter_memory());
        if let Some(error) = error {
            break error;
        }
    };
    assert_eq!(rejection, TakeError::MemoryExhausted);
    assert!(bytes_in_use() > LIMIT + SLACK - 4 * CHUNK);
    assert!(counter_memory().is_tight());

    // A key that already has a counter is served; a keyed section gets no large level either.
    assert_eq!(
        take_next(&sections[0], CounterKey::Dense(0)).unwrap().first,
        2
    );
    let keyed = Section::keyed(OPEN, [1, 2]);
    let error = (0..10_000_u32)
        .find_map(|key| take_next(&keyed, CounterKey::Keyed(&key.to_le_bytes())).err());
    assert_eq!(error, Some(TakeError::MemoryExhausted));
    assert_eq!(
        take_next(&keyed, CounterKey::Keyed(&[0; 4])).unwrap().first,
        2
    );

    // Two closed sections make room for as much.
    sections.truncate(sections.len() - 2);
    let again = Section::dense(OPEN, SIZE);
    for uid in (0..SIZE).step_by(CHUNK) {
        assert_eq!(take_next(&again, CounterKey::Dense(uid)).unwrap().first, 1);
    }
    sections.truncate(sections.len() / 2);
    assert!(!counter_memory().is_tight());
}
