//! Refill ahead: no call waits at a step boundary unless the store is down.
//!
//! Measured with 1,024 callers of one uid, then the stores are stopped. Runs while no other cluster
//! does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use seqsvr_alloc::AllocServer;
use seqsvr_check::{CallAnswer, CallKind, RecordedCall, SequenceName};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NextRequest, Reason};
use seqsvr_test_support::in_process::{
    HistoryClock, InProcessCluster, LEASE, check_history, create_namespace, dense_namespace,
    new_caller, next_request, read_counters,
};
use seqsvr_test_support::wait::wait_until;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::transport::Channel;

const CALLERS: usize = 1_024;
const CONNECTIONS: usize = 8;
const WINDOWS: u64 = 100;
/// Target duration of a window; far below the maximum.
const WINDOW_TARGET: Duration = Duration::from_millis(1_000);
const WINDOW_DURATION_MAX: Duration = Duration::from_secs(5);
/// All callers wait for the first Open and are released together: half a window must hold them.
const STEP_MIN: u32 = 4 * CALLERS as u32;

/// Attempts until one in which the lease was never lost.
const RUNS_MAX: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refill_ahead_avoids_waits_at_step_boundaries() {
    for run in 1..=RUNS_MAX {
        if cross_boundaries().await {
            return;
        }
        println!(
            "run {run}: the lease was lost, so the section was reopened: the run does not count"
        );
    }
    panic!("the lease was lost in each of {RUNS_MAX} runs: this machine is too busy");
}

/// Makes one attempt. Returns false if the lease was lost during it.
async fn cross_boundaries() -> bool {
    // 1. Measure the rate of one uid, on a window that never ends.
    let mut cluster = InProcessCluster::start_alone(3, LEASE).await;
    let [alloc] = cluster.start_allocs(["a1"]).await;
    let allocs = [alloc.clone()];

    create_namespace(&allocs, &dense_namespace("pace", 1_000, 1_000, 1 << 30)).await;
    let rate_time = Duration::from_secs(3);
    let measured = run_load(&alloc, "pace", 1, StopCondition::After(rate_time)).await;
    let rate = measured.greatest as f64 / rate_time.as_secs_f64();
    // A slow machine uses its windows up by taking several numbers in each call.
    let step = STEP_MIN.max((rate * WINDOW_TARGET.as_secs_f64()) as u32);
    let count = (f64::from(step) / (rate * WINDOW_TARGET.as_secs_f64())) as u32;
    let count = count.clamp(1, step / CALLERS as u32);

    // 2. Take the numbers of many windows, and measure.
    create_namespace(&allocs, &dense_namespace("pinned", 1_000, 1_000, step)).await;
    let before = read_counters(alloc.local_addr()).await;
    assert_eq!(before["window_waits"], 0);
    let began = Instant::now();
    let last = StopCondition::Number((WINDOWS + 1) * u64::from(step));
    let measured_load = run_load(&alloc, "pinned", count, last).await;
    let took = began.elapsed();
    let after = read_counters(alloc.local_addr()).await;
    let raises = after["raises"] - before["raises"];
    let window = took / (measured_load.greatest / u64::from(step)) as u32;
    println!(
        "step boundary: {CALLERS} callers, {rate:.0} calls/s measured, step {step}, {count} a call, {} numbers = {} windows in {took:.1?} ({window:.0?} each), {raises} raises, window_waits {}",
        measured_load.greatest,
        measured_load.greatest / u64::from(step),
        after["window_waits"],
    );

    // 3. No call waited, and the history holds.
    if after["sessions_opened"] > before["sessions_opened"] {
        cluster.stop(&allocs).await;
        return false;
    }
    assert_eq!(measured_load.errors, Vec::<String>::new());
    assert_eq!(after["opens"] - before["opens"], 1);
    assert!(raises >= WINDOWS, "{raises} raises");
    assert!(window < WINDOW_DURATION_MAX, "{window:?}");
    assert_eq!(after["window_waits"], 0, "a call waited");
    let report = check_history("step boundary", &measured_load.calls);
    assert!(report.concurrency_max >= CALLERS as u64 * 9 / 10);

    // 4. Stop the stores: the window ends, and the counter of waits rises.
    cluster.stop_stores().await;
    let starved = run_load(&alloc, "pinned", count, StopCondition::Waited).await;
    let waited = read_counters(alloc.local_addr()).await["window_waits"];
    println!("step boundary, stores stopped: window_waits {waited}");
    assert!(waited > 0);
    assert!(
        starved.errors.iter().any(|e| e.contains("window")),
        "{:?}",
        starved.errors
    );
    let all: Vec<RecordedCall> = measured_load
        .calls
        .into_iter()
        .chain(starved.calls)
        .collect();
    assert_eq!(
        all.len() as u64,
        seqsvr_check::check_calls(&all).unwrap().calls
    );
    cluster.stop(&[]).await;
    true
}

/// Condition on which callers stop.
#[derive(Clone, Copy)]
enum StopCondition {
    After(Duration),
    /// This number was reached.
    Number(u64),
    /// A call has waited for a window.
    Waited,
}

struct BoundaryLoad {
    calls: Vec<RecordedCall>,
    greatest: u64,
    /// Distinct texts.
    errors: Vec<String>,
}

/// Runs 1,024 callers, each with one call in flight, all for uid 7, until the end.
async fn run_load(
    alloc: &AllocServer,
    namespace: &'static str,
    count: u32,
    end: StopCondition,
) -> BoundaryLoad {
    let up_to = match end {
        StopCondition::Number(last) => last,
        StopCondition::After(_) | StopCondition::Waited => u64::MAX,
    };
    let runtime = callers_runtime();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let alloc = alloc.clone();
        let connected = runtime.spawn(async move { new_caller(&alloc).await });
        connections.push(connected.await.unwrap());
    }
    let greatest = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let history_clock = HistoryClock::start();
    let callers: Vec<_> = (0..CALLERS)
        .map(|i| {
            let boundary_caller = BoundaryCaller {
                caller: connections[i % CONNECTIONS].clone(),
                namespace,
                count,
                up_to,
                greatest: greatest.clone(),
                stop: stop.clone(),
                history_clock,
            };
            runtime.spawn(boundary_caller.run())
        })
        .collect();
    let timeout = WINDOW_DURATION_MAX * (WINDOWS + 1) as u32;
    match end {
        StopCondition::After(time) => tokio::time::sleep(time).await,
        StopCondition::Waited => {
            wait_until("a call to wait for a window", timeout, async || {
                let waited = read_counters(alloc.local_addr()).await["window_waits"];
                (waited > 0).then_some(())
            })
            .await;
        }
        StopCondition::Number(last) => {
            wait_until("the last window", timeout, async || {
                let done = greatest.load(Relaxed) >= last;
                (done || callers.iter().all(|c| c.is_finished())).then_some(())
            })
            .await;
        }
    }
    stop.store(true, Relaxed);
    let mut load = BoundaryLoad {
        calls: Vec::new(),
        greatest: 0,
        errors: Vec::new(),
    };
    for caller in callers {
        let (calls, errors) = caller.await.unwrap();
        load.calls.extend(calls);
        load.errors.extend(errors);
    }
    load.errors.sort();
    load.errors.dedup();
    load.greatest = greatest.load(Relaxed);
    runtime.shutdown_background();
    load
}

struct BoundaryCaller {
    caller: SequenceClient<Channel>,
    namespace: &'static str,
    count: u32,
    up_to: u64,
    greatest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    history_clock: HistoryClock,
}

impl BoundaryCaller {
    async fn run(mut self) -> (Vec<RecordedCall>, Vec<String>) {
        let sequence = SequenceName::for_uid(self.namespace, 7);
        let (mut calls, mut errors) = (Vec::new(), Vec::new());
        while !self.stop.load(Relaxed) && self.greatest.load(Relaxed) < self.up_to {
            let mut request = Request::new(NextRequest {
                count: Some(self.count),
                ..next_request(self.namespace, 7)
            });
            request.set_timeout(Duration::from_secs(5));
            let begin = self.history_clock.now_ns();
            let answer = match self.caller.next(request).await {
                Ok(answer) => {
                    let numbers = answer.into_inner();
                    self.greatest.fetch_max(numbers.last, Relaxed);
                    Some((
                        CallAnswer::next_range(numbers.first, numbers.last),
                        numbers.epoch,
                    ))
                }
                Err(status) => {
                    let fault = RpcError::from_status(&status);
                    assert!(matches!(
                        fault.reason(),
                        Reason::WindowExhausted | Reason::NoLease | Reason::Unspecified
                    ));
                    errors.push(fault.message);
                    None
                }
            };
            calls.push(self.history_clock.end_call(
                sequence.clone(),
                begin,
                CallKind::Next,
                answer,
            ));
        }
        (calls, errors)
    }
}

/// Creates a thread for the callers and their connections, with a lower priority than the servers.
/// In production they run on other machines and take no time from the servers.
fn callers_runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| {
            rustix::process::nice(10).unwrap();
        })
        .enable_all()
        .build()
        .unwrap()
}
