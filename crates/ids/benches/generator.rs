//! Cost of an id, next to the least that it could cost, an atomic addition and the time of a
//! ticker, and next to other crates.
//!
//! `cargo bench -p seqsvr-ids --bench generator`; compare within one run only. `bare` is the
//! yardstick. `ahead`, `hold` and `peer_ferroid` have one layout with 2^22 ids a tick, so that no
//! call waits for the clock. The other crates have their own layouts and read the system's clock:
//! their ids of a tick are used up, so they wait.

#![expect(
    clippy::expect_used,
    reason = "a layout of the bench that is invalid is a mistake"
)]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use divan::Bencher;
use divan::counter::ItemsCount;
use ferroid::generator::AtomicSnowflakeGenerator;
use ferroid::time::TimeSource;
use idgenerator::{IdGeneratorOptions, IdInstance};
use peer_id::PeerId;
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

impl TimeSource<u64> for &Ticker {
    fn current_millis(&self) -> u64 {
        self.read()
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.is_stopped.store(true, Relaxed);
    }
}

mod peer_id {
    ferroid::define_snowflake_id!(
        /// An id with the layout of `splicer`.
        PeerId, u64,
        reserved: 1,
        timestamp: 41,
        machine_id: 0,
        sequence: 22
    );
}

fn splicer() -> Splicer {
    let layout: IdLayout = "0:1,time:41,seq:22".parse().expect("is a layout");
    Splicer::new(&layout, 0, 0, 0).expect("has a generator")
}

fn clocked<P: ClockPolicy>(policy: P) -> (Splicer, Clocked<P>) {
    let splicer = splicer();
    let start = SequenceStart::Zero;
    (splicer, Clocked::new(splicer.grid(), start, policy, 0))
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn bare(bencher: Bencher<'_, '_>) {
    let (ticker, next) = (Ticker::start(), AtomicU64::new(0));
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            black_box((ticker.read() << 22) | (next.fetch_add(1, Relaxed) & 0x3f_ffff));
        }
    });
}

/// The atomic generator of the crate `ferroid`, at the same layout and clock.
#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn peer_ferroid(bencher: Bencher<'_, '_>) {
    let ticker = Ticker::start();
    let generator = AtomicSnowflakeGenerator::<PeerId, _>::new(0, &ticker);
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            black_box(generator.next_id(|_| {}).to_raw());
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

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn ahead(bencher: Bencher<'_, '_>) {
    bench_single(bencher, Ahead { max_ticks: 1_000 });
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn hold(bencher: Bencher<'_, '_>) {
    bench_single(bencher, Hold);
}

/// Ids by the thousand.
#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
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

/// The crate `snowflaked`: 10 bits of worker, 12 of sequence.
#[divan::bench(threads = THREADS)]
fn peer_snowflaked(bencher: Bencher<'_, '_>) {
    let generator = snowflaked::sync::Generator::new(1);
    bench_peer(bencher, || generator.generate::<u64>());
}

/// The crate `rs-snowflake`, which needs a lock: 10 bits of worker, 12 of sequence.
#[divan::bench(threads = THREADS)]
fn peer_rs_snowflake(bencher: Bencher<'_, '_>) {
    let generator = Mutex::new(snowflake::SnowflakeIdGenerator::new(1, 1));
    bench_peer(bencher, || {
        let mut generator = generator.lock().expect("no thread panics");
        generator.generate() as u64
    });
}

/// The crate `idgenerator`: 8 bits of worker, 8 of sequence, in front of the clock after a burst.
#[divan::bench(threads = THREADS)]
fn peer_idgenerator(bencher: Bencher<'_, '_>) {
    let options = IdGeneratorOptions::new().worker_id(1).worker_id_bit_len(8);
    IdInstance::init(options.seq_bit_len(8)).expect("has valid options");
    bench_peer(bencher, || IdInstance::next_id() as u64);
}

fn bench_peer(bencher: Bencher<'_, '_>, next: impl Fn() -> u64 + Sync) {
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            black_box(next());
        }
    });
}
