//! A deposed owner gives no number below those of the new owner.
//!
//! An owner is paused, loses its slots to another AllocSvr, and continues at a moment when it can
//! reach no store. It has only its windows, its clocks, and callers that call it. It must answer
//! none of them with a number below those that the new owner has given.
//!
//! The stores are restarted while the owner is paused, so that no message waits in its sockets, and
//! are paused before it continues. So only its own lease, or the confirmation that strict mode
//! waits for, keeps it from answering. Without both, the exact check must find a violation (`cargo
//! xtask accept --unleased`).

use std::time::{Duration, Instant};

use seqsvr_test_support::callers::{GrpcCaller, ItemOutcome, TestCall, TestCaller};
use seqsvr_test_support::history::History;
use seqsvr_test_support::process::Signal;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::test_keys::TestKey;
use seqsvr_test_support::wait::wait_until;

use crate::scenario::ScenarioOutcome;

const LEASE_MS: u32 = 1_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(90);
/// Sequences whose slots change hands.
const MOVED_KEYS: usize = 100;
/// Calls of each sequence at the new owner.
const CALLS_PER_KEY: usize = 10;

/// Wakes up an owner that has lost its slots while it can reach no store.
pub async fn deposed_owner() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. a1 owns the keys and has served each of them.
    let mut cluster = ProcessCluster::start(3, 2, LEASE_MS).await;
    let client = cluster.new_client().with_deadline(TEST_TIMEOUT);
    let mut history = History::create(cluster.dir());
    let mut test_keys = crate::scenario::wait_for_owned_keys(&client, "a1", MOVED_KEYS).await;
    test_keys.truncate(MOVED_KEYS);
    let through_client = TestCaller::Sdk(client.clone());
    let a1 = &cluster.alloc_addresses[..1];
    let to_a1 = TestCaller::Grpc(GrpcCaller::new(a1, client));
    take_all_answered(&mut history, &mut outcome, &to_a1, &test_keys).await;

    // 2. Pause the owner, and restart the stores so that no message waits in its sockets.
    cluster.allocs[0].signal(Signal::STOP);
    for store in &mut cluster.stores {
        store.kill();
    }
    for store in &mut cluster.stores {
        store.restart();
    }

    // 3. Another AllocSvr takes over and serves the keys.
    for _ in 0..CALLS_PER_KEY {
        take_all_answered(&mut history, &mut outcome, &through_client, &test_keys).await;
        outcome.calls_during_fault += MOVED_KEYS as u64;
    }

    // 4. Pause the stores and continue the owner: it is deposed and alone.
    for store in &cluster.stores {
        store.signal(Signal::STOP);
    }
    cluster.allocs[0].signal(Signal::CONT);
    let alone = take_recorded(&mut history, &to_a1, &test_keys).await;
    let answered = alone.iter().flatten().count();
    outcome.note(format!(
        "of {MOVED_KEYS} calls the deposed owner answered {answered} while it could reach no store"
    ));

    // 5. Continue the stores: the keys are served through a1 again.
    for store in &cluster.stores {
        store.signal(Signal::CONT);
    }
    wait_until(
        "the deposed owner to serve again",
        TEST_TIMEOUT,
        async || {
            let results = take_recorded(&mut history, &to_a1, &test_keys).await;
            results.iter().all(ItemOutcome::is_ok).then_some(())
        },
    )
    .await;
    take_all_answered(&mut history, &mut outcome, &through_client, &test_keys).await;
    cluster.wait_until_assigned(2).await;

    // 6. The history holds: no number below those of the new owner.
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// Takes and records one number of each sequence.
async fn take_recorded(
    history: &mut History,
    caller: &TestCaller,
    test_keys: &[TestKey],
) -> Vec<ItemOutcome> {
    let items: Vec<&TestKey> = test_keys.iter().collect();
    let begin = history.now_ns();
    let results = caller.call(0, TestCall::Next(1), &items).await;
    let end = history.now_ns();
    for (test_key, result) in test_keys.iter().zip(&results) {
        history.record(test_key, TestCall::Next(1), begin, end, result);
    }
    results
}

/// Takes and records one number of each sequence. Every call must be answered.
async fn take_all_answered(
    history: &mut History,
    outcome: &mut ScenarioOutcome,
    caller: &TestCaller,
    test_keys: &[TestKey],
) {
    let began = Instant::now();
    for result in take_recorded(history, caller, test_keys).await {
        result.expect("it is answered");
        outcome.add_call(began.elapsed());
    }
}
