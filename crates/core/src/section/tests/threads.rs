//! Real threads on one section: unique, monotonic, within the window, complete at the seal.

use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

use super::*;

const THREADS: u64 = 4;

/// Few enough that threads compete for every key, many enough to open levels and chunks.
const KEYS: u64 = 1_500;

/// Threads take numbers of all keys until the section is sealed during their calls. A widener keeps
/// it supplied. Every number from 1 up to a key's last must have been handed out exactly once.
fn fight(section: &Section, key_text: impl Fn(u64) -> Vec<u8> + Sync, seal_at: u64) {
    let start = Barrier::new(THREADS as usize + 1);
    let work = |thread: u64| {
        start.wait();
        let mut taken: Vec<(u64, NumberRange)> = Vec::new();
        let mut last: HashMap<u64, u64> = HashMap::new();
        let mut random = thread + 1;
        loop {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let key = (random >> 33) % KEYS;
            let count = n(1 + (random >> 60) as u32);
            let text = key_text(key);
            let handle = if text.is_empty() {
                CounterKey::Dense(key as u32)
            } else {
                CounterKey::Keyed(&text)
            };
            match section.next(handle, count) {
                Ok(range) => {
                    let before = last.insert(key, range.last).unwrap_or(0);
                    assert!(range.first > before, "{key} went back: {before} {range:?}");
                    assert_eq!(range.last - range.first + 1, u64::from(count.get()));
                    taken.push((key, range));
                }
                Err(TakeError::WindowExhausted { needed }) => section.widen_to(needed),
                Err(TakeError::Sealed) => return taken,
                Err(other) => panic!("{other}"),
            }
        }
    };
    let (taken, highest) = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t))).collect();
        start.wait();
        while section.highest_offset() < seal_at {
            thread::yield_now();
        }
        section.seal();
        let highest = loop {
            match section.high_water_mark() {
                Some(highest) => break highest,
                None => thread::yield_now(),
            }
        };
        let taken: Vec<(u64, NumberRange)> = workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect();
        (taken, highest)
    });

    let mut by_key: HashMap<u64, Vec<NumberRange>> = HashMap::new();
    for (key, range) in taken {
        by_key.entry(key).or_default().push(range);
    }
    let mut greatest = 0;
    for (key, ranges) in &mut by_key {
        ranges.sort_by_key(|range| range.first);
        let mut next = 1;
        for range in ranges {
            assert_eq!(range.first, next, "key {key}: repeated or lost");
            next = range.last + 1;
        }
        greatest = greatest.max(next - 1);
    }
    assert_eq!(highest, greatest, "the final number is exact");
    assert!(highest <= section.max_seq());
    assert_eq!(section.keys_in_memory(), by_key.len() as u64);
}

const ROUNDS: u64 = if cfg!(debug_assertions) { 5 } else { 20 };

#[test]
fn dense_section_under_threads_repeats_no_number() {
    for round in 1..=ROUNDS {
        let section = Section::dense(open(0, 1, 1, 10), 10_000);
        fight(&section, |_| Vec::new(), 300 * round);
    }
}

#[test]
fn keyed_section_under_threads_repeats_no_number() {
    for round in 1..=ROUNDS {
        let section = Section::keyed(open(0, 1, 1, 10), HASH_KEY);
        let text = |key| format!("k{key}").into_bytes();
        fight(&section, text, 300 * round);
    }
}

/// Many threads cross the 32-bit edge of one counter together.
#[test]
fn counter_that_grows_wide_under_threads_repeats_no_number() {
    let edge = u64::from(NARROW_MAX);
    for round in 0..ROUNDS * 20 {
        let section = Section::dense(open(0, 1, 1, edge * 2), 10);
        section
            .raise_to(CounterKey::Dense(3), edge - 50 - round)
            .unwrap();
        let start = Barrier::new(THREADS as usize);
        let mut taken: Vec<u64> = thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        (0..200)
                            .map(|_| section.next(CounterKey::Dense(3), n(1)).unwrap().last)
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            workers
                .into_iter()
                .flat_map(|worker| {
                    let taken = worker.join().unwrap();
                    assert!(taken.is_sorted_by(|a, b| a < b));
                    taken
                })
                .collect()
        });
        taken.sort_unstable();
        let expected: Vec<u64> = (1..=THREADS * 200).map(|i| edge - 50 - round + i).collect();
        assert_eq!(taken, expected);
    }
}

/// Sections come and go on all threads, each in memory that others had before, of either kind. Each
/// counts from 1, and no two at once count in the same.
#[test]
fn reused_chunks_are_zero_and_unshared() {
    const SIZE: u32 = 3 * 1_024;
    /// So many that some levels are as large as a chunk and larger.
    const KEYS: u32 = 1_000;
    const ALIVE: usize = 4;
    let counts = |section: &Section, round: usize, last: u64| {
        let is_last = |key: CounterKey<'_>| section.next(key, n(1)) == range(last, last);
        match round % 2 {
            0 => (0..SIZE)
                .step_by(500)
                .all(|index| is_last(CounterKey::Dense(index))),
            _ => (0..KEYS).all(|key| is_last(CounterKey::Keyed(&key.to_le_bytes()))),
        }
    };
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut alive: Vec<(Section, usize, u64)> = Vec::new();
                for round in 0..200 {
                    let open = open(0, 1, 1, 10_000);
                    let section = match round % 2 {
                        0 => Section::dense(open, SIZE),
                        _ => Section::keyed(open, HASH_KEY),
                    };
                    alive.push((section, round, 0));
                    for (section, made, last) in &mut alive {
                        *last += 1;
                        assert!(counts(section, *made, *last), "{made} in round {round}");
                    }
                    if alive.len() > ALIVE {
                        alive.swap_remove(round * 7 % ALIVE);
                    }
                }
            });
        }
    });
}
