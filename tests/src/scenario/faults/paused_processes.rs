//! Processes are paused (SIGSTOP) for three leases and continue (SIGCONT).
//!
//! Fault: pause of an owner with requests in its sockets, of the store leader, of both at once, or
//! of a majority of the stores. Checked: no process that continues answers with an old number.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_check::CallAnswer;
use seqsvr_client::Key;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NextRequest, NextResponse};
use seqsvr_test_support::callers::{TestCall, next_answer};
use seqsvr_test_support::history::History;
use seqsvr_test_support::process::Signal;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys::{self, TestKey};
use seqsvr_test_support::wait::wait_until;
use tokio::task::JoinHandle;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

use crate::scenario::ScenarioOutcome;

const LEASE: Duration = Duration::from_secs(1);
const CALLS_PER_PHASE: u64 = 1_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Requests sent directly to the paused owner.
const QUEUED_REQUESTS: usize = 150;
/// Timeout of each of them.
const QUEUED_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Calls in flight of the direct caller, which calls only one AllocSvr, and the number of its
/// sequences.
const DIRECT_CALLS_IN_FLIGHT: usize = 16;
const DIRECT_KEYS: usize = 32;
/// Its deadline: while the AllocSvr is paused, each call times out and another is sent.
const DIRECT_CALL_TIMEOUT: Duration = Duration::from_millis(700);

/// Pauses an owner for 3 D with requests in its sockets, while a caller keeps calling it.
pub async fn owner_paused() -> ScenarioOutcome {
    pause_processes(&[], true).await
}

/// Pauses the store leader for 3 D.
pub async fn leader_paused() -> ScenarioOutcome {
    pause_processes(&[0], false).await
}

/// Pauses the store leader and an owner for 3 D.
pub async fn owner_and_leader_paused() -> ScenarioOutcome {
    pause_processes(&[0], true).await
}

/// Pauses two of three stores for 3 D. No call may be served for a while, and no answer may be
/// wrong afterwards.
pub async fn majority_paused() -> ScenarioOutcome {
    pause_processes(&[0, 1], false).await
}

/// Pauses the leader (0) and the stores after it (1, 2), and the first AllocSvr if `owner`.
async fn pause_processes(stores: &[usize], owner: bool) -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load all sequences, and call a1 directly.
    let mut cluster = ProcessCluster::start(3, 3, LEASE.as_millis() as u32).await;
    let majority = stores.len() > 1;
    // A plain call to a paused process waits with it, so plain callers call the others.
    let plain_addresses = cluster.alloc_addresses[1..].to_vec();
    let (callers, client) = crate::scenario::new_callers(&cluster, &plain_addresses);
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        6,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(2 * CALLS_PER_PHASE, TEST_TIMEOUT).await;

    // 2. Choose the stores, and connect to a1 before the pause, so that later requests wait in its
    // sockets.
    let leader = cluster.leader().await;
    let stopped: Vec<usize> = stores.iter().map(|i| (leader + i) % 3).collect();
    let mut waiting = Vec::new();
    let test_keys = crate::scenario::wait_for_owned_keys(&client, "a1", QUEUED_REQUESTS).await;
    let channel = SequenceClient::connect(format!("http://{}", cluster.alloc_addresses[0]));
    let a1 = channel.await.expect("it listens");
    let direct = DirectCaller::start(&a1, &history, &test_keys[..DIRECT_KEYS]);
    direct.wait_for_answers().await;
    let before = load.answered_calls();

    // 3. Pause the stores and perhaps the owner, and fill the owner's sockets.
    for store in &stopped {
        cluster.stores[*store].signal(Signal::STOP);
    }
    if owner {
        cluster.allocs[0].signal(Signal::STOP);
        for test_key in test_keys.into_iter().take(QUEUED_REQUESTS) {
            let (a1, history) = (a1.clone(), history.clone());
            waiting.push(tokio::spawn(send_direct(
                a1,
                history,
                test_key,
                QUEUED_REQUEST_TIMEOUT,
            )));
        }
    }

    // 4. Three leases pass. Unless a majority is paused, calls are answered during them.
    tokio::time::sleep(3 * LEASE).await;
    if !majority {
        load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
        outcome.calls_during_fault = load.answered_calls() - before;
    }

    // 5. Continue all. The requests in the sockets end.
    for store in &stopped {
        cluster.stores[*store].signal(Signal::CONT);
    }
    let mut answered_late = 0;
    if owner {
        cluster.allocs[0].signal(Signal::CONT);
        for sent in waiting {
            answered_late += u64::from(sent.await.expect("it ends"));
        }
        outcome.note(format!(
            "of {QUEUED_REQUESTS} requests that waited in the paused owner's sockets {answered_late} were answered with a number"
        ));
    }

    // 6. All callers are served again.
    load.wait_for_calls(2 * CALLS_PER_PHASE, TEST_TIMEOUT).await;
    direct.wait_for_answers().await;
    let (answered, failed) = direct.stop().await;
    outcome.note(format!(
        "direct caller of a1: {answered} calls answered, {failed} timed out or rejected"
    ));
    outcome.calls += answered;
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    outcome.calls += answered_late;

    // 7. Calls failed only if a majority was paused, and only as unavailable.
    if majority {
        outcome.note(format!("{} calls failed, as they must", summary.failed));
        outcome.failed = 0;
        let other =
            |f: &&String| !f.to_lowercase().contains("unavailable") && !f.contains("within");
        let odd: Vec<_> = summary.failures.iter().filter(other).collect();
        assert!(odd.is_empty(), "{odd:?}");
    } else {
        summary.assert_none_failed();
        assert!(
            outcome.calls_during_fault >= CALLS_PER_PHASE,
            "{} inside",
            outcome.calls_during_fault
        );
    }

    // 8. The history holds: no old number.
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.ordered_pairs > 10_000);
    outcome
}

/// A caller that calls only one AllocSvr, also while that is paused.
struct DirectCaller {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl DirectCaller {
    fn start(
        to: &SequenceClient<Channel>,
        history: &History,
        test_keys: &[TestKey],
    ) -> DirectCaller {
        let mut direct = DirectCaller {
            stop: Arc::default(),
            answered: Arc::default(),
            failed: Arc::default(),
            tasks: Vec::new(),
        };
        for task in 0..DIRECT_CALLS_IN_FLIGHT {
            let (to, history) = (to.clone(), history.clone());
            let stop = direct.stop.clone();
            let counts = [direct.answered.clone(), direct.failed.clone()];
            let test_keys = test_keys.to_vec();
            direct.tasks.push(tokio::spawn(async move {
                for test_key in test_keys.iter().cycle().skip(task) {
                    if stop.load(Relaxed) {
                        return;
                    }
                    let sent = send_direct(
                        to.clone(),
                        history.clone(),
                        test_key.clone(),
                        DIRECT_CALL_TIMEOUT,
                    );
                    counts[usize::from(!sent.await)].fetch_add(1, Relaxed);
                }
            }));
        }
        direct
    }

    /// Waits for further answers.
    async fn wait_for_answers(&self) {
        let before = self.answered.load(Relaxed);
        wait_until("an answer to the direct caller", TEST_TIMEOUT, async || {
            (self.answered.load(Relaxed) > before + DIRECT_CALLS_IN_FLIGHT as u64).then_some(())
        })
        .await;
    }

    /// Ends the caller. Returns the number of answered and of failed calls.
    async fn stop(self) -> (u64, u64) {
        self.stop.store(true, Relaxed);
        for task in self.tasks {
            task.await.expect("no task panics");
        }
        (self.answered.load(Relaxed), self.failed.load(Relaxed))
    }
}

/// Makes one call directly to an AllocSvr. Returns whether a number was answered.
async fn send_direct(
    mut to: SequenceClient<Channel>,
    mut history: History,
    test_key: TestKey,
    timeout: Duration,
) -> bool {
    let Key::Uid(uid) = test_key.key else {
        panic!("a uid");
    };
    let mut request = Request::new(NextRequest {
        key_kind: Some(KeyKind::Uid(uid)),
        ..NextRequest::default()
    });
    request.set_timeout(timeout);
    let begin = history.now_ns();
    let answer: Result<Response<NextResponse>, Status> = to.next(request).await;
    let end = history.now_ns();
    let result = match answer {
        Ok(n) => {
            let n = n.into_inner();
            let answer: CallAnswer = next_answer(n.first, n.last, &test_key);
            Ok((Some(n.epoch), answer))
        }
        Err(status) => Err(status.to_string()),
    };
    history.record(&test_key, TestCall::Next(1), begin, end, &result);
    result.is_ok()
}
