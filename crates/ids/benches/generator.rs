//! Cost of an id, next to the least that it could cost: an atomic addition and the time of a
//! ticker.
//!
//! `cargo bench -p seqsvr-ids --bench generator`; compare within one run only. `bare` is the
//! yardstick. The layout has 2^22 ids a tick, so that no call waits for the clock.

#![expect(
    clippy::expect_used,
    reason = "a layout of the bench that is invalid is a mistake"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::ItemsCount;
use seqsvr_core::layout::IdLayout;
use seqsvr_ids::generator::{Ahead, ClockPolicy, Clocked, Hold, SequenceStart, Splicer};

const ONE: NonZeroU32 = NonZeroU32::MIN;
const FILL: NonZeroU32 = NonZeroU32::new(1_000).expect("is above 0");
const THREADS: [usize; 2] = [1, 2];
const BATCH: u64 = 1_000;
/// Tick of a layout in its first year.
const FIRST_TICK: u64 = 28_000_000_000;

fn main() {
    divan::main();
}

/// A tick that a thread stores every millisecond.
struct Ticker {
    tick: Arc<AtomicU64>,
    is_stopped: Arc<AtomicBool>,
}

impl Ticker {
    fn start() -> Self {
        let begin = Instant::now();
        let tick = Arc::new(AtomicU64::new(FIRST_TICK));
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (writer, stop) = (tick.clone(), is_stopped.clone());
        thread::spawn(move || {
            while !stop.load(Relaxed) {
                let elapsed_ms = begin.elapsed().as_millis() as u64;
                writer.store(FIRST_TICK + elapsed_ms, Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        Self { tick, is_stopped }
    }

    fn read(&self) -> u64 {
        self.tick.load(Relaxed)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.is_stopped.store(true, Relaxed);
    }
}

fn splicer() -> Splicer {
    let layout: IdLayout = "0:1,time:41,seq:22".parse().expect("is a layout");
    Splicer::new(&layout, 0, 0).expect("has a generator")
}

fn clocked<P: ClockPolicy>(policy: P) -> (Splicer, Clocked<P>) {
    let splicer = splicer();
    let start = SequenceStart::Zero;
    (splicer, Clocked::new(splicer.grid(), start, policy, 0))
}

#[divan::bench(threads = THREADS)]
fn bare(bencher: Bencher<'_, '_>) {
    let (ticker, next) = (Ticker::start(), AtomicU64::new(0));
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            black_box((ticker.read() << 22) | (next.fetch_add(1, Relaxed) & 0x3f_ffff));
        }
    });
}

fn bench_single<P: ClockPolicy + Sync>(bencher: Bencher<'_, '_>, policy: P) {
    let (ticker, (splicer, generator)) = (Ticker::start(), clocked(policy));
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            let taken = generator.take(ONE, || ticker.read());
            let _ = black_box(taken.map(|run| splicer.id(run.lane, run.first)));
        }
    });
}

#[divan::bench(threads = THREADS)]
fn ahead(bencher: Bencher<'_, '_>) {
    bench_single(bencher, Ahead { max_ticks: 1_000 });
}

#[divan::bench(threads = THREADS)]
fn hold(bencher: Bencher<'_, '_>) {
    bench_single(bencher, Hold);
}

/// Ids by the thousand.
#[divan::bench(threads = THREADS)]
fn fill(bencher: Bencher<'_, '_>) {
    let (ticker, (splicer, generator)) = (Ticker::start(), clocked(Ahead { max_ticks: 1_000 }));
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        let mut ids = [0; BATCH as usize];
        if let Ok(run) = generator.take(FILL, || ticker.read()) {
            splicer.fill(run, &mut ids);
        }
        black_box(ids);
    });
}
