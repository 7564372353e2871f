//! One atomic word beside the ring of UidGenerator's cached generator: the cost of an id.
//!
//! `cargo bench -p seqsvr-ids --bench ring`; compare within one run only. Both have UidGenerator's
//! default layout and use ticks in front of the clock, 8,192 ids each. The ring is that of Baidu's
//! `RingBuffer.java`: 65,536 slots with ids, as many flags, and a thread that fills it when half of
//! it is used. A caller that finds it empty waits; in the original it gets an error.

#![expect(
    clippy::expect_used,
    reason = "a layout of the bench that is invalid is a mistake"
)]

use std::hint::{black_box, spin_loop};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use divan::Bencher;
use divan::counter::ItemsCount;
use seqsvr_core::layout::IdLayout;
use seqsvr_ids::generator::{Ahead, Clocked, SequenceStart, Splicer};

const LAYOUT: &str = "0:1,time:28,worker:22,seq:13";
const THREADS: [usize; 2] = [1, 2];
const BATCH: u64 = 1_000;
const IDS_A_TICK: u64 = 1 << 13;
const SLOTS: u64 = IDS_A_TICK << 3;
const CAN_PUT: u64 = 0;
const CAN_TAKE: u64 = 1;

fn main() {
    divan::main();
}

fn splicer() -> Splicer {
    let layout: IdLayout = LAYOUT.parse().expect("is a layout");
    Splicer::new(&layout, 0, 7, 0).expect("has a generator")
}

/// A number on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct PaddedNumber(AtomicU64);

struct Ring {
    slots: Box<[AtomicU64]>,
    flags: Box<[PaddedNumber]>,
    /// The last slot that was filled, and the last that was taken.
    tail: PaddedNumber,
    cursor: PaddedNumber,
    /// Puts are synchronized.
    put: Mutex<()>,
    is_filling: AtomicBool,
    is_stopped: AtomicBool,
}

impl Ring {
    fn new() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self {
            slots,
            flags: (0..SLOTS).map(|_| PaddedNumber::default()).collect(),
            tail: PaddedNumber::default(),
            cursor: PaddedNumber::default(),
            put: Mutex::default(),
            is_filling: AtomicBool::new(true),
            is_stopped: AtomicBool::new(false),
        }
    }

    fn put(&self, id: u64) -> bool {
        let _guard = self.put.lock().expect("no thread panics");
        let tail = self.tail.0.load(SeqCst);
        let next = ((tail + 1) % SLOTS) as usize;
        let is_full = tail - self.cursor.0.load(SeqCst) == SLOTS - 1;
        if is_full || self.flags[next].0.load(SeqCst) != CAN_PUT {
            return false;
        }
        self.slots[next].store(id, SeqCst);
        self.flags[next].0.store(CAN_TAKE, SeqCst);
        self.tail.0.store(tail + 1, SeqCst);
        true
    }

    fn take(&self, filler: &JoinHandle<()>) -> Option<u64> {
        let advance = |cursor| (cursor != self.tail.0.load(SeqCst)).then_some(cursor + 1);
        let taken = self.cursor.0.fetch_update(SeqCst, SeqCst, advance);
        let next = taken.map_or_else(|cursor| cursor, |before| before + 1);
        if self.tail.0.load(SeqCst) - next < SLOTS / 2 && !self.is_filling.swap(true, SeqCst) {
            filler.thread().unpark();
        }
        taken.ok()?;
        let slot = (next % SLOTS) as usize;
        assert_eq!(self.flags[slot].0.load(SeqCst), CAN_TAKE);
        let id = self.slots[slot].load(SeqCst);
        self.flags[slot].0.store(CAN_PUT, SeqCst);
        Some(id)
    }

    /// Fills the ring with the ids of one tick after another.
    fn fill(&self) {
        let splicer = splicer();
        let mut ids = (0..).map(|position| splicer.id(0, position));
        let mut rejected = None;
        while !self.is_stopped.load(SeqCst) {
            if !self.is_filling.load(SeqCst) {
                thread::park();
                continue;
            }
            while let Some(id) = rejected.take().or_else(|| ids.next()) {
                if !self.put(id) {
                    rejected = Some(id);
                    break;
                }
            }
            self.is_filling.store(false, SeqCst);
        }
    }
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn ring(bencher: Bencher<'_, '_>) {
    let ring = Arc::new(Ring::new());
    let filled = ring.clone();
    let filler = thread::spawn(move || filled.fill());
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            let id = loop {
                match ring.take(&filler) {
                    Some(id) => break id,
                    None => spin_loop(),
                }
            };
            black_box(id);
        }
    });
    ring.is_stopped.store(true, SeqCst);
    filler.thread().unpark();
    filler.join().expect("no thread panics");
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn one_word(bencher: Bencher<'_, '_>) {
    let splicer = splicer();
    let policy = Ahead { max_ticks: 1 << 27 };
    let generator = Clocked::new(splicer.grid(), SequenceStart::Zero, policy, 0);
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            let taken = generator.take(NonZeroU32::MIN, || black_box(0));
            let _ = black_box(taken.map(|run| splicer.id(run.lane, run.first)));
        }
    });
}
