//! An AllocSvr with a state directory is killed and restarted: its keys are served again at once.
//!
//! Fault: SIGKILL, and a second process on the same directory and on a copy of it. Measured: time
//! until its keys are served. A copy proves nothing while its owner lives, and disturbs no session.

use std::time::{Duration, Instant};

use seqsvr_client::NextItem;
use seqsvr_test_support::history::History;
use seqsvr_test_support::process::{ServerProcess, free_ports};
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;

use crate::scenario::ScenarioOutcome;

const CALLS_PER_PHASE: u64 = 1_000;
/// Minimum keys of the killed AllocSvr that are requested after the restart.
const REQUESTED_KEYS_MIN: usize = 100;
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time from exec to the first numbers of its keys.
const RECOVERY_LIMIT: Duration = Duration::from_secs(1);
/// Number of kills. The best counts, so that one slow moment of the machine does not decide.
const KILLS: usize = 3;

/// Kills and restarts an AllocSvr with a state directory, then starts a second process on a copy of
/// it.
pub async fn fast_restart() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load all sequences; b has a state directory.
    let mut cluster = ProcessCluster::start(3, 1, 3_000).await;
    let state = cluster.dir().join("state-b").display().to_string();
    cluster.add_alloc("b", &["--state-dir", &state]);
    cluster.wait_until_assigned(2).await;
    let b = 1;
    let (callers, client) = crate::scenario::new_retrying_callers(&cluster);
    test_keys::create_third_namespace(&client).await;
    let mut history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        6,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;

    // 2. Kill and restart b, several times: its keys are served at once.
    let mut best = Duration::MAX;
    for _ in 0..KILLS {
        let test_keys =
            crate::scenario::wait_for_owned_keys(&client, "b", REQUESTED_KEYS_MIN).await;
        let before = load.answered_calls();
        cluster.kill_alloc(b);
        let began = Instant::now();
        cluster.allocs[b].restart();
        let wanted: Vec<NextItem> = test_keys
            .iter()
            .map(|s| NextItem::new(s.key.clone()))
            .collect();
        let begin = history.now_ns();
        let answers = client
            .namespace(test_keys[0].namespace)
            .next_batch(&wanted)
            .await;
        let (took, end) = (began.elapsed(), history.now_ns());
        for (test_key, answer) in test_keys.iter().zip(answers) {
            let n = answer.expect("its keys are back");
            history.record_number(test_key, begin, end, &n);
        }
        outcome.note(format!(
            "{} keys of b are back {took:.2?} after exec",
            wanted.len()
        ));
        best = best.min(took);
        load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
        outcome.calls_during_fault += load.answered_calls() - before;
        cluster.wait_until_assigned(2).await;
    }
    assert!(best <= RECOVERY_LIMIT, "back only after {best:?}");

    // 3. Start a second process on the directory, and one on a copy, while b lives: both end.
    let copy = cluster.dir().join("state-copy");
    std::fs::create_dir(&copy).unwrap();
    for file in ["lock", "proof"] {
        std::fs::copy(std::path::Path::new(&state).join(file), copy.join(file)).unwrap();
    }
    let opened = cluster
        .sum_counter(&cluster.alloc_addresses, "sessions_opened")
        .await;
    let second = |dir: String, name: &str| {
        let args = [
            "alloc".to_owned(),
            "--name".to_owned(),
            "b".to_owned(),
            "--listen".to_owned(),
            format!("127.0.0.1:{}", free_ports(1)),
            "--stores".to_owned(),
            cluster.store_addresses.join(","),
            "--state-dir".to_owned(),
            dir,
            "--name-conflict-timeout".to_owned(),
            "5s".to_owned(),
        ];
        ServerProcess::start(cluster.dir(), name, args.to_vec())
    };
    let mut on_same = second(state.clone(), "second");
    let mut on_copy = second(copy.display().to_string(), "copy");
    let ended = on_same.wait_for_exit(TEST_TIMEOUT).await;
    assert!(!ended.success() && on_same.log().contains("in use by another process"));
    let ended = on_copy.wait_for_exit(TEST_TIMEOUT).await;
    assert!(!ended.success(), "{ended}");
    let log = on_copy.log();
    assert!(
        log.contains("it was copied from another directory"),
        "{log}"
    );
    let last = log.lines().last().unwrap();
    assert!(last.contains("the name \"b\" is in use"), "{last}");
    let now = cluster
        .sum_counter(&cluster.alloc_addresses, "sessions_opened")
        .await;
    assert_eq!(now, opened, "an AllocSvr lost its session");

    // 4. b still has its session, no call failed, and the history holds.
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;

    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    cluster.assert_none_ended();
    history.check();
    outcome
}
