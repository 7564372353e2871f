//! Refill ahead: no call waits at a step boundary unless the store is down.
//!
//! 1,024 callers of one uid take at most three quarters of the newest window, and continue once the
//! raise is confirmed. So the speed of the machine decides nothing: a refill that begins with less
//! than a quarter left never comes, and a call that waits for a window needed none. Then the stores
//! are stopped, and the callers do not pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_alloc::AllocServer;
use seqsvr_check::{CallAnswer, CallKind, RecordedCall, SequenceName};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_test_support::in_process::{
    HistoryClock, InProcessCluster, check_history, create_namespace, dense_namespace, new_caller,
    next_request, read_counter, read_counters,
};
use seqsvr_test_support::wait::wait_until;
use tokio::runtime::Runtime;
use tonic::Request;
use tonic::transport::Channel;

const NAMESPACE: &str = "pinned";
const CALLERS: u64 = 1_024;
const CONNECTIONS: usize = 8;
const WINDOWS: u64 = 100;
/// A quarter of a window holds one call of each caller.
const STEP: u64 = 4 * CALLERS;
/// No lease is lost on a busy machine: a section that is opened again has other windows.
const LONG_LEASE: Duration = Duration::from_secs(30);
/// Time for all calls of the test on a busy machine.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refill_ahead_avoids_waits_at_step_boundaries() {
    let mut cluster = InProcessCluster::start_alone(3, LONG_LEASE).await;
    let [alloc] = cluster.start_allocs(["a1"]).await;
    let allocs = [alloc.clone()];
    create_namespace(
        &allocs,
        &dense_namespace(NAMESPACE, 1_000, 1_000, STEP as u32),
    )
    .await;

    // 1. Take the numbers of many windows.
    let before = read_counters(alloc.local_addr()).await;
    assert_eq!(before["window_waits"], 0);
    let paced = run_load(&alloc, Load::Windows(WINDOWS)).await;
    let after = read_counters(alloc.local_addr()).await;
    let raises = after["raises"] - before["raises"];
    assert_eq!(after["sessions_opened"], before["sessions_opened"]);
    assert_eq!(paced.errors, Vec::<String>::new());
    assert_eq!(after["opens"] - before["opens"], 1);
    assert!(raises >= WINDOWS, "{raises} raises");
    assert_eq!(after["window_waits"], 0, "a call waited");
    let report = check_history("step boundary", &paced.calls);
    assert!(report.concurrency_max >= CALLERS * 9 / 10);

    // 2. Stop the stores: the window ends, and the counter of waits rises.
    cluster.stop_stores().await;
    let starved = run_load(&alloc, Load::UntilWait).await;
    assert!(read_counter(&alloc, "window_waits").await > 0);
    assert!(
        starved.errors.iter().any(|e| e.contains("window")),
        "{:?}",
        starved.errors
    );
    let all: Vec<RecordedCall> = paced.calls.into_iter().chain(starved.calls).collect();
    assert_eq!(
        all.len() as u64,
        seqsvr_check::check_calls(&all).unwrap().calls
    );
    cluster.stop(&[]).await;
}

/// What callers do.
#[derive(Clone, Copy)]
enum Load {
    /// They take the numbers of so many windows, each after its raise was confirmed.
    Windows(u64),
    /// They take numbers until a call has waited for a window and all have ended.
    UntilWait,
}

struct BoundaryLoad {
    calls: Vec<RecordedCall>,
    /// Distinct texts.
    errors: Vec<String>,
}

/// Runs 1,024 callers, each with one call in flight, all for uid 7, until the end.
async fn run_load(alloc: &AllocServer, load: Load) -> BoundaryLoad {
    let runtime = callers_runtime();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let alloc = alloc.clone();
        let connected = runtime.spawn(async move { new_caller(&alloc).await });
        connections.push(connected.await.unwrap());
    }
    let raises_before = read_counter(alloc, "raises").await;
    let quota = Arc::new(CallQuota::default());
    quota.raise_to(match load {
        Load::Windows(_) => STEP - STEP / 4,
        Load::UntilWait => QUOTA_ENDLESS,
    });
    let history_clock = HistoryClock::start();
    let callers: Vec<_> = (0..CALLERS as usize)
        .map(|i| {
            let boundary_caller = BoundaryCaller {
                caller: connections[i % CONNECTIONS].clone(),
                quota: quota.clone(),
                history_clock,
            };
            runtime.spawn(boundary_caller.run())
        })
        .collect();
    match load {
        Load::Windows(windows) => {
            wait_until("the raise of each window", LOAD_TIMEOUT, async || {
                let raises = read_counter(alloc, "raises").await - raises_before;
                quota.raise_to((1 + raises.min(windows)) * STEP - STEP / 4);
                (raises >= windows).then_some(())
            })
            .await;
        }
        Load::UntilWait => {
            wait_until("a call to wait for a window", LOAD_TIMEOUT, async || {
                (read_counter(alloc, "window_waits").await > 0).then_some(())
            })
            .await;
        }
    }
    quota.end();
    let mut load = BoundaryLoad {
        calls: Vec::new(),
        errors: Vec::new(),
    };
    for caller in callers {
        let (calls, errors) = caller.await.unwrap();
        load.calls.extend(calls);
        load.errors.extend(errors);
    }
    load.errors.sort();
    load.errors.dedup();
    runtime.shutdown_background();
    load
}

/// Numbers that the callers of a load may take; a call takes one.
#[derive(Default)]
struct CallQuota {
    taken: AtomicU64,
    end: AtomicU64,
}

/// End of a quota that is never reached.
const QUOTA_ENDLESS: u64 = u64::MAX - 1;
/// End of a quota after which callers end.
const QUOTA_ENDED: u64 = u64::MAX;

impl CallQuota {
    fn raise_to(&self, end: u64) {
        self.end.fetch_max(end, Relaxed);
    }

    fn end(&self) {
        self.end.store(QUOTA_ENDED, Relaxed);
    }

    /// Waits until a number may be taken; false once the load has ended.
    async fn take(&self) -> bool {
        loop {
            match self.end.load(Relaxed) {
                QUOTA_ENDED => return false,
                end => {
                    let take = |taken| (taken < end).then_some(taken + 1);
                    if self.taken.fetch_update(Relaxed, Relaxed, take).is_ok() {
                        return true;
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

struct BoundaryCaller {
    caller: SequenceClient<Channel>,
    quota: Arc<CallQuota>,
    history_clock: HistoryClock,
}

impl BoundaryCaller {
    async fn run(mut self) -> (Vec<RecordedCall>, Vec<String>) {
        let sequence = SequenceName::for_uid(NAMESPACE, 7);
        let (mut calls, mut errors) = (Vec::new(), Vec::new());
        while self.quota.take().await {
            let mut request = Request::new(next_request(NAMESPACE, 7));
            request.set_timeout(CALL_TIMEOUT);
            let begin = self.history_clock.now_ns();
            let answer = match self.caller.next(request).await {
                Ok(answer) => {
                    let numbers = answer.into_inner();
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
