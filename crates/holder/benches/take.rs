//! Cost of an id that a holder makes, next to the bare generator at the same clock: what keeping a
//! worker adds.
//!
//! `cargo bench -p seqsvr-holder`; compare within one run only. The layout has 2^22 ids a tick, so
//! that no call waits for the clock.

#![expect(clippy::expect_used, reason = "a step of the bench that fails ends it")]

use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use divan::Bencher;
use divan::counter::ItemsCount;
use rustix::time::{ClockId, clock_gettime};
use seqsvr_core::family::{Family, FamilyLimits, FamilySpec};
use seqsvr_core::ids::FamilyId;
use seqsvr_core::layout::TickScale;
use seqsvr_holder::{BootClock, FamilyHolder, HolderOptions, StoreClock, Ticker, WorkerCalls};
use seqsvr_ids::generator::{SequenceStart, Splicer, WorkerGenerator};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;
use tokio::runtime::Runtime;
use tokio::time::Instant;

const LAYOUT: &str = "0:1,time:39,worker:2,seq:22";
const ONE: NonZeroU32 = NonZeroU32::MIN;
const THREADS: [usize; 2] = [1, 2];
const BATCH: u64 = 1_000;
/// Tick of a layout in its first year; ticks are milliseconds.
const FIRST_TICK: u64 = 28_000_000_000;
const AHEAD_TICKS: u64 = 1_000;

fn main() {
    divan::main();
}

/// A store that grants one worker without end.
struct Granted;

impl WorkerCalls for Granted {
    async fn acquire(&self, _: v1::AcquireWorkerRequest) -> Result<v1::WorkerGrant, RpcError> {
        Ok(v1::WorkerGrant {
            worker: 1,
            epoch: 1,
            from: FIRST_TICK,
            until: u64::MAX,
            store_time_ms: FIRST_TICK,
            ..v1::WorkerGrant::default()
        })
    }

    async fn renew(&self, _: v1::Renewal) -> Result<v1::WorkerGrant, RpcError> {
        std::future::pending().await
    }

    async fn release(&self, _: v1::ReleaseWorkerRequest) -> Result<(), RpcError> {
        Ok(())
    }
}

fn bench_held(bencher: Bencher<'_, '_>, boot: BootClock) {
    let runtime = Runtime::new().expect("the system has threads");
    let scale = TickScale::new(0, 1).expect("is a scale");
    let spec = FamilySpec::new("orders", LAYOUT.parse().expect("is a layout"), scale);
    let family = Family {
        id: FamilyId(1),
        spec,
        limits: FamilyLimits::DEFAULT,
        version: 0,
    };
    let options = HolderOptions {
        name: "bench".to_owned(),
        workers: 1..=1,
        claimed: None,
        window_ms: 0,
        idle_timeout: Duration::MAX,
    };
    let holder = runtime.block_on(async {
        let holder = FamilyHolder::start(family, StoreClock::new(boot), Arc::new(Granted), options);
        let deadline = Instant::now() + Duration::from_secs(5);
        let granted = holder.wait_for_worker(deadline).await;
        granted.expect("a worker is granted");
        holder
    });
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            black_box(holder.take_id().expect("the tick is not used up"));
        }
    });
}

fn bench_bare(bencher: Bencher<'_, '_>, read_ns: impl Fn() -> u64 + Sync) {
    let layout = LAYOUT.parse().expect("is a layout");
    let splicer = Splicer::new(&layout, 0, 1, 0..).expect("has a generator");
    let first = read_ns() / 1_000_000;
    let (grid, start) = (splicer.grid(), SequenceStart::Zero);
    let generator = WorkerGenerator::new(grid, start, 1, FIRST_TICK, u64::MAX);
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            let tick = FIRST_TICK + read_ns() / 1_000_000 - first;
            let run = generator.take(ONE, tick, AHEAD_TICKS);
            let id = run.map(|run| splicer.id(run.lane, run.first));
            black_box(id.expect("the tick is not used up"));
        }
    });
}

fn boot_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn exact(bencher: Bencher<'_, '_>) {
    bench_held(bencher, BootClock::Exact);
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn exact_bare(bencher: Bencher<'_, '_>) {
    bench_bare(bencher, boot_ns);
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn ticker(bencher: Bencher<'_, '_>) {
    let ticker = Ticker::start().expect("the system has threads");
    bench_held(bencher, BootClock::Ticker(ticker));
}

#[divan::bench(threads = THREADS, sample_size = 1000, sample_count = 30)]
fn ticker_bare(bencher: Bencher<'_, '_>) {
    let now_ns = Arc::new(AtomicU64::new(boot_ns()));
    let weak = Arc::downgrade(&now_ns);
    thread::spawn(move || {
        while let Some(now_ns) = weak.upgrade() {
            now_ns.store(boot_ns(), Relaxed);
            drop(now_ns);
            thread::sleep(Duration::from_millis(1));
        }
    });
    bench_bare(bencher, || now_ns.load(Relaxed));
}
