//! Refill ahead: no call waits at a step boundary unless the store is down.
//!
//! Measured with 1,024 callers of one uid, then the stores are stopped. Runs while no other cluster
//! does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use seqsvr_alloc::Alloc;
use seqsvr_check::{Answer, Call, Kind, Sequence};
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NextRequest, Reason};
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::transport::Channel;

use crate::harness::{Cluster, D, caller, counters, create, dense, next_of, until_within};
use crate::history::{Stamps, must_hold};

const CALLERS: usize = 1_024;
const CONNECTIONS: usize = 8;
const WINDOWS: u64 = 100;
/// Target duration of a window; far below the maximum.
const WINDOW: Duration = Duration::from_millis(1_000);
const WINDOW_MAX: Duration = Duration::from_secs(5);
/// All callers wait for the first Open and are released together: half a window must hold them.
const STEP_MIN: u32 = 4 * CALLERS as u32;

/// Attempts until one in which the lease was never lost.
const RUNS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_waits_at_a_step_boundary() {
    for run in 1..=RUNS {
        if cross_boundaries().await {
            return;
        }
        println!(
            "run {run}: the lease was lost, so the section was opened anew: it counts for nothing"
        );
    }
    panic!("the lease was lost in each of {RUNS} runs: this machine is too busy");
}

/// Makes one attempt. Returns false if the lease was lost during it.
async fn cross_boundaries() -> bool {
    let mut cluster = Cluster::start_alone(3, D).await;
    let [alloc] = cluster.allocs(["a1"]).await;
    let allocs = [alloc.clone()];

    // Measures the rate of one uid here, on a window that never ends.
    create(&allocs, &dense("pace", 1_000, 1_000, 1 << 30)).await;
    let pace = Duration::from_secs(3);
    let measured = load(&alloc, "pace", 1, End::After(pace)).await;
    let rate = measured.greatest as f64 / pace.as_secs_f64();
    // A slow machine uses its windows up by taking several numbers in each call.
    let step = STEP_MIN.max((rate * WINDOW.as_secs_f64()) as u32);
    let count = (f64::from(step) / (rate * WINDOW.as_secs_f64())) as u32;
    let count = count.clamp(1, step / CALLERS as u32);

    create(&allocs, &dense("pinned", 1_000, 1_000, step)).await;
    let before = counters(alloc.local_addr()).await;
    assert_eq!(before["waited_for_refill"], 0);
    let began = Instant::now();
    let last = End::Number((WINDOWS + 1) * u64::from(step));
    let load_of = load(&alloc, "pinned", count, last).await;
    let took = began.elapsed();
    let after = counters(alloc.local_addr()).await;
    let raises = after["raises"] - before["raises"];
    let window = took / (load_of.greatest / u64::from(step)) as u32;
    println!(
        "step boundary: {CALLERS} callers, {rate:.0} calls/s measured, step {step}, {count} a call, {} numbers = {} windows in {took:.1?} ({window:.0?} each), {raises} raises, waited_for_refill {}",
        load_of.greatest,
        load_of.greatest / u64::from(step),
        after["waited_for_refill"],
    );
    if after["sessions_opened"] > before["sessions_opened"] {
        cluster.stop(&allocs).await;
        return false;
    }
    assert_eq!(load_of.errors, Vec::<String>::new());
    assert_eq!(after["opens"] - before["opens"], 1);
    assert!(raises >= WINDOWS, "{raises} raises");
    assert!(window < WINDOW_MAX, "{window:?}");
    assert_eq!(after["waited_for_refill"], 0, "somebody waited");
    let report = must_hold("step boundary", &load_of.calls);
    assert!(report.concurrency_max >= CALLERS as u64 * 9 / 10);

    // Without stores the window ends, and the counter of waits rises.
    cluster.stop_stores().await;
    let starved = load(&alloc, "pinned", count, End::Waited).await;
    let waited = counters(alloc.local_addr()).await["waited_for_refill"];
    println!("step boundary, stores stopped: waited_for_refill {waited}");
    assert!(waited > 0);
    assert!(
        starved.errors.iter().any(|e| e.contains("window")),
        "{:?}",
        starved.errors
    );
    let all: Vec<Call> = load_of.calls.into_iter().chain(starved.calls).collect();
    assert_eq!(all.len() as u64, seqsvr_check::check(&all).unwrap().calls);
    cluster.stop(&[]).await;
    true
}

/// Condition on which callers stop.
#[derive(Clone, Copy)]
enum End {
    After(Duration),
    /// This number was reached.
    Number(u64),
    /// A call has waited for a window.
    Waited,
}

struct Load {
    calls: Vec<Call>,
    greatest: u64,
    /// Distinct texts.
    errors: Vec<String>,
}

/// Runs 1,024 callers, each with one call in flight, all for uid 7, until the end.
async fn load(alloc: &Alloc, namespace: &'static str, count: u32, end: End) -> Load {
    let up_to = match end {
        End::Number(last) => last,
        End::After(_) | End::Waited => u64::MAX,
    };
    let runtime = callers_thread();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let alloc = alloc.clone();
        let connected = runtime.spawn(async move { caller(&alloc).await });
        connections.push(connected.await.unwrap());
    }
    let greatest = Arc::new(AtomicU64::new(0));
    let stop = Arc::new(AtomicBool::new(false));
    let stamps = Stamps::new();
    let callers: Vec<_> = (0..CALLERS)
        .map(|i| {
            let one = One {
                caller: connections[i % CONNECTIONS].clone(),
                namespace,
                count,
                up_to,
                greatest: greatest.clone(),
                stop: stop.clone(),
                stamps,
            };
            runtime.spawn(one.run())
        })
        .collect();
    let patience = WINDOW_MAX * (WINDOWS + 1) as u32;
    match end {
        End::After(time) => tokio::time::sleep(time).await,
        End::Waited => {
            until_within(patience, "somebody to wait for a window", async || {
                let waited = counters(alloc.local_addr()).await["waited_for_refill"];
                (waited > 0).then_some(())
            })
            .await;
        }
        End::Number(last) => {
            until_within(patience, "the last window", async || {
                let done = greatest.load(Relaxed) >= last;
                (done || callers.iter().all(|c| c.is_finished())).then_some(())
            })
            .await;
        }
    }
    stop.store(true, Relaxed);
    let mut load = Load {
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

struct One {
    caller: SequenceClient<Channel>,
    namespace: &'static str,
    count: u32,
    up_to: u64,
    greatest: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    stamps: Stamps,
}

impl One {
    async fn run(mut self) -> (Vec<Call>, Vec<String>) {
        let sequence = Sequence::uid(self.namespace, 7);
        let (mut calls, mut errors) = (Vec::new(), Vec::new());
        while !self.stop.load(Relaxed) && self.greatest.load(Relaxed) < self.up_to {
            let mut request = Request::new(NextRequest {
                count: Some(self.count),
                ..next_of(self.namespace, 7)
            });
            request.set_timeout(Duration::from_secs(5));
            let begin = self.stamps.now();
            let answer = match self.caller.next(request).await {
                Ok(answer) => {
                    let n = answer.into_inner();
                    self.greatest.fetch_max(n.last, Relaxed);
                    Some((Answer::next(n.first, n.last), n.epoch))
                }
                Err(status) => {
                    let fault = Fault::from_status(&status);
                    assert!(matches!(
                        fault.reason(),
                        Reason::NoWindow | Reason::NoLease | Reason::Unspecified
                    ));
                    errors.push(fault.message);
                    None
                }
            };
            calls.push(
                self.stamps
                    .ended(sequence.clone(), begin, Kind::Next, answer),
            );
        }
        (calls, errors)
    }
}

/// Creates a thread for the callers and their connections, with a lower priority than the servers.
/// In production they run on other machines and take no time from the servers.
fn callers_thread() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .on_thread_start(|| {
            rustix::process::nice(10).unwrap();
        })
        .enable_all()
        .build()
        .unwrap()
}
