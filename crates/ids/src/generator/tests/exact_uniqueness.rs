//! Exact uniqueness by a bitmap, with 16 threads and a made-up clock that they share.
//!
//! The large ones: `cargo test --release -p seqsvr-ids exact -- --ignored --test-threads 1`.

use std::cell::Cell;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::super::{
    Ahead, ClockPolicy, Clocked, Hold, Refuse, RollbackBits, Run, SequenceStart, TickClock,
    Timelines, Wait,
};
use super::grid;

const THREADS: u64 = 16;
/// Ids a tick.
const CAPACITY: u64 = 1 << 12;
/// Ids of a large test under `Ahead`, and under each other policy.
const MANY: u64 = 1_000_000_000;
const LARGE: u64 = 100_000_000;
const SMALL: u64 = 1_000_000;

/// One bit for each position of each lane, from tick 0 on.
struct Bitmap {
    words: Vec<AtomicU64>,
    lane_length: u64,
}

impl Bitmap {
    fn new(lanes: u64, lane_length: u64) -> Self {
        let words = (lanes * lane_length).div_ceil(64);
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            lane_length,
        }
    }

    /// Sets the bits of a run; fails if one is set.
    fn add(&self, run: Run) {
        for position in run.first..run.first + run.count {
            assert!(position < self.lane_length, "the clock went too far");
            let index = u64::from(run.lane) * self.lane_length + position;
            let bit = 1 << (index % 64);
            let before = self.words[(index / 64) as usize].fetch_or(bit, Ordering::Relaxed);
            assert_eq!(before & bit, 0, "repeated: lane {}, {position}", run.lane);
        }
    }

    fn count(&self) -> u64 {
        let ones = |word: &AtomicU64| u64::from(word.load(Ordering::Relaxed).count_ones());
        self.words.iter().map(ones).sum()
    }
}

/// A thread's view of a clock that all share: a caller that waits moves it on by one tick.
struct SharedClock<'a> {
    tick: &'a AtomicU64,
    seen: Cell<u64>,
}

impl SharedClock<'_> {
    fn advance(&self) {
        let seen = self.seen.get();
        let _ = self
            .tick
            .compare_exchange(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed);
    }
}

impl TickClock for SharedClock<'_> {
    fn tick(&self) -> u64 {
        self.seen.set(self.tick.load(Ordering::Acquire));
        self.seen.get()
    }

    fn wait(&self, _: u64) -> bool {
        self.advance();
        true
    }
}

/// Takes `total` ids with all threads; now and then one sets the clock back or ahead.
fn check_exact<P: ClockPolicy + Sync>(policy: P, lane_bits: u32, total: u64) {
    let ticks = total / CAPACITY;
    let lanes = 1 << lane_bits;
    let bitmap = Bitmap::new(lanes, (2 * ticks + 2_000) * CAPACITY);
    let generator = Clocked::new(
        grid(41, CAPACITY, lane_bits),
        SequenceStart::Zero,
        policy,
        0,
    );
    let tick = AtomicU64::new(100);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (bitmap, generator, tick) = (&bitmap, &generator, &tick);
            scope.spawn(move || {
                let seen = Cell::new(0);
                let clock = SharedClock { tick, seen };
                let mut random = thread + 1;
                let mut left = total / THREADS;
                while left > 0 {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    let count = if random >> 60 == 0 { 100 } else { 1 };
                    let count = count.min(left) as u32;
                    let count = NonZeroU32::new(count).unwrap_or(NonZeroU32::MIN);
                    match (random >> 32) % 1_000_000 {
                        0 => drop(tick.fetch_add(3, Ordering::AcqRel)),
                        1..=3 => step_back(tick, 50),
                        4..=20 => step_back(tick, 3),
                        _ => {}
                    }
                    match generator.take_waiting(count, &clock) {
                        Ok(run) => {
                            bitmap.add(run);
                            left -= run.count;
                        }
                        Err(_) => clock.advance(),
                    }
                }
            });
        }
    });
    assert_eq!(bitmap.count(), total / THREADS * THREADS);
}

fn step_back(tick: &AtomicU64, ticks: u64) {
    let step = |now: u64| Some(now.saturating_sub(ticks));
    let _ = tick.fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
}

const AHEAD: Ahead = Ahead { max_ticks: 1_000 };
const WAIT: Wait = Wait {
    max_ticks: 5,
    factor: 2,
};
const ROLLBACK_BITS: RollbackBits = RollbackBits { wait_ticks: 5 };
const TIMELINES: Timelines = Timelines { wait_ticks: 5 };

#[test]
fn ids_of_16_threads_are_exactly_unique() {
    check_exact(AHEAD, 0, SMALL);
    check_exact(Refuse, 0, SMALL);
    check_exact(WAIT, 0, SMALL);
    check_exact(Hold, 0, SMALL);
    check_exact(ROLLBACK_BITS, 2, SMALL);
    check_exact(TIMELINES, 2, SMALL);
}

#[test]
#[ignore = "10^9 ids"]
fn exact_ahead_repeats_nothing_in_1e9_ids() {
    check_exact(AHEAD, 0, MANY);
}

#[test]
#[ignore = "10^8 ids"]
fn exact_refuse_repeats_nothing_in_1e8_ids() {
    check_exact(Refuse, 0, LARGE);
}

#[test]
#[ignore = "10^8 ids"]
fn exact_wait_repeats_nothing_in_1e8_ids() {
    check_exact(WAIT, 0, LARGE);
}

#[test]
#[ignore = "10^8 ids"]
fn exact_hold_repeats_nothing_in_1e8_ids() {
    check_exact(Hold, 0, LARGE);
}

#[test]
#[ignore = "10^8 ids"]
fn exact_rollback_bits_repeat_nothing_in_1e8_ids() {
    check_exact(ROLLBACK_BITS, 2, LARGE);
}

#[test]
#[ignore = "10^8 ids"]
fn exact_timelines_repeat_nothing_in_1e8_ids() {
    check_exact(TIMELINES, 2, LARGE);
}
