//! Cost of an id that a process makes with a worker of its own, next to the bare generator at the
//! same clock: what keeping a worker adds.
//!
//! `cargo bench -p seqsvr-client`; compare within one run only. The layout has 2^22 ids a tick, so
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
use seqsvr_client::{Client, ClientOptions, FamilySpec, LocalOptions};
use seqsvr_core::layout::TickScale;
use seqsvr_ids::generator::{SequenceStart, Splicer, WorkerGenerator};
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, create_family, new_runtime};

const LAYOUT: &str = "0:1,time:39,worker:2,seq:22";
const THREADS: [usize; 2] = [1, 2];
const BATCH: u64 = 1_000;
/// Tick of a layout in its first year; ticks are milliseconds.
const FIRST_TICK: u64 = 28_000_000_000;
/// 2026-01-01.
const EPOCH_MS: u64 = 1_767_225_600_000;
const AHEAD_TICKS: u64 = 1_000;

fn main() {
    divan::main();
}

fn bench_local(bencher: Bencher<'_, '_>, options: LocalOptions) {
    let runtime = new_runtime(1);
    let (cluster, allocs, local) = runtime.block_on(async {
        let cluster = InProcessCluster::start(1, LEASE).await;
        let allocs = cluster.start_allocs(["a1"]).await;
        let address = allocs[0].local_addr().to_string();
        let client = Client::new(ClientOptions::new([address])).expect("is an address");
        let scale = TickScale::new(EPOCH_MS, 1).expect("is a scale");
        let spec = FamilySpec::new("orders", LAYOUT.parse().expect("is a layout"), scale);
        create_family(&client.admin(), &spec).await;
        let orders = client.family("orders").await.expect("was created");
        let local = orders.local(options).await.expect("a worker is free");
        (cluster, allocs, local)
    });
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            black_box(local.next().expect("the tick is not used up"));
        }
    });
    runtime.block_on(async {
        local.close().await;
        cluster.stop(&allocs).await;
    });
}

fn bench_bare(bencher: Bencher<'_, '_>, read_ns: impl Fn() -> u64 + Sync) {
    let layout = LAYOUT.parse().expect("is a layout");
    let splicer = Splicer::new(&layout, 0, 1, 0).expect("has a generator");
    let first = read_ns() / 1_000_000;
    let (grid, start) = (splicer.grid(), SequenceStart::Zero);
    let generator = WorkerGenerator::new(grid, start, 1, FIRST_TICK, u64::MAX);
    bencher.counter(ItemsCount::new(BATCH)).bench(|| {
        for _ in 0..BATCH {
            let tick = FIRST_TICK + read_ns() / 1_000_000 - first;
            let run = generator.take(NonZeroU32::MIN, tick, AHEAD_TICKS);
            let id = run.map(|run| splicer.id(run.lane, run.first));
            black_box(id.expect("the tick is not used up"));
        }
    });
}

fn boot_ns() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[divan::bench(threads = THREADS, sample_size = 10, sample_count = 1000)]
fn exact(bencher: Bencher<'_, '_>) {
    bench_local(bencher, LocalOptions::default());
}

#[divan::bench(threads = THREADS, sample_size = 10, sample_count = 1000)]
fn exact_bare(bencher: Bencher<'_, '_>) {
    bench_bare(bencher, boot_ns);
}

#[divan::bench(threads = THREADS, sample_size = 10, sample_count = 1000)]
fn ticker(bencher: Bencher<'_, '_>) {
    bench_local(bencher, LocalOptions::default().with_ticker());
}

#[divan::bench(threads = THREADS, sample_size = 10, sample_count = 1000)]
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
