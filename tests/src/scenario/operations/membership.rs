//! Membership changes: the StoreSvrs are replaced under load until none of the first three is left.
//!
//! Fault: SIGKILL of a store and of a leader, removal and wiped disks. Checked: no call fails, and
//! an invalid change is rejected with a text that says what to do.

use std::time::{Duration, Instant};

use seqsvr_test_support::history::History;
use seqsvr_test_support::process::run_command;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys;
use seqsvr_test_support::wait::wait_until;
use serde_json::Value;

use crate::scenario::ScenarioOutcome;

const CALLS_PER_PHASE: u64 = 3_000;
/// Calls between two changes.
const CALLS_BETWEEN_CHANGES: u64 = 300;
const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A fourth and a fifth store join, the leadership moves ten times, two old stores leave, and the
/// third dies and is replaced. Then a leader dies when no store is left that the AllocSvrs were
/// configured with at their start. No call may fail.
pub async fn members() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load all sequences through every kind of caller.
    let mut cluster = ProcessCluster::start(3, 2, 3_000).await;
    let (callers, client) = crate::scenario::new_callers(&cluster, &cluster.alloc_addresses);
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        12,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let before = load.answered_calls();

    // 2. Two stores join.
    for id in [4, 5] {
        join_store(&mut cluster, id, &mut outcome).await;
        load.wait_for_calls(CALLS_BETWEEN_CHANGES, TEST_TIMEOUT)
            .await;
    }
    assert_eq!(voter_ids(&cluster).await, [1, 2, 3, 4, 5]);

    // 3. The leadership moves ten times.
    for n in 0..10 {
        let to = (cluster.leader().await as u64 + 2) % 5 + 1;
        let began = Instant::now();
        run_member_command(&cluster, &["transfer", &to.to_string()]).await;
        assert_eq!(cluster.leader().await as u64 + 1, to);
        let took = began.elapsed();
        outcome.note(format!(
            "leadership {} of 10 moved to {to} in {took:.2?}",
            n + 1
        ));
        load.wait_for_calls(CALLS_BETWEEN_CHANGES, TEST_TIMEOUT)
            .await;
    }

    // 4. Store 1 leaves as the leader, store 2 in its present role.
    run_member_command(&cluster, &["transfer", "1"]).await;
    for id in [1, 2] {
        remove_store(&mut cluster, id, &mut outcome).await;
        load.wait_for_calls(CALLS_BETWEEN_CHANGES, TEST_TIMEOUT)
            .await;
    }

    // 5. Store 3 dies and is replaced. The load continues until the new group was needed.
    let raises = cluster
        .sum_counter(&cluster.alloc_addresses, "raises")
        .await;
    cluster.kill_store(2);
    load.wait_for_calls(CALLS_BETWEEN_CHANGES, TEST_TIMEOUT)
        .await;
    run_member_command(&cluster, &["remove", "3"]).await;
    join_store(&mut cluster, 6, &mut outcome).await;
    assert_eq!(voter_ids(&cluster).await, [4, 5, 6]);
    load.wait_for_calls(CALLS_BETWEEN_CHANGES, TEST_TIMEOUT)
        .await;
    let raised = wait_until("a raise at the new group", TEST_TIMEOUT, async || {
        let now = cluster
            .sum_counter(&cluster.alloc_addresses, "raises")
            .await;
        (now > raises).then_some(now - raises)
    })
    .await;
    outcome.note(format!("{raised} raises since store 3 died"));

    // 6. A leader dies when no store of the AllocSvrs' configuration is left.
    let led = cluster.leader().await;
    cluster.kill_store(led);
    let killed = Instant::now();
    let next = wait_until("another leader", TEST_TIMEOUT, async || {
        let now = cluster.leader().await;
        (now != led).then_some(now)
    })
    .await;
    outcome.note(format!(
        "leader {} killed with none of the first stores left; {} leads after {:.2?}",
        led + 1,
        next + 1,
        killed.elapsed()
    ));
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    cluster.stores[led].restart();
    load.wait_for_calls(CALLS_BETWEEN_CHANGES, TEST_TIMEOUT)
        .await;
    outcome.calls_during_fault = load.answered_calls() - before;
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;

    // 7. No call failed, and the history holds.
    let summary = load.stop().await;
    outcome.add_load("load", &summary);
    summary.assert_none_failed();
    assert!(outcome.calls_during_fault >= 1_000);
    cluster.assert_none_ended();
    let report = history.check();
    assert_eq!(report.answered_calls(), summary.answered);
    outcome
}

/// Rejects invalid members, with the reason and what to do.
pub async fn invalid_members_rejected() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    let mut cluster = ProcessCluster::start(3, 1, 3_000).await;
    let admin = cluster.new_client();
    outcome
        .measure_call(admin.default_namespace().next(1))
        .await;

    // 1. No server there; another id there; an AllocSvr there; ids and addresses in use.
    let unused = "4=127.0.0.1:9";
    assert_member_rejected(
        &cluster,
        &["add", unused],
        1,
        "start it with `seqsvr store --id 4",
    )
    .await;
    cluster.add_store(5);
    let other = cluster.store_addresses[3].clone();
    let wrong = format!("4={other}");
    assert_member_rejected(&cluster, &["add", &wrong], 2, "is store 5, not store 4").await;
    let alloc = format!("4={}", cluster.alloc_addresses[0]);
    assert_member_rejected(&cluster, &["add", &alloc], 2, "is not a StoreSvr").await;
    assert_member_rejected(&cluster, &["add", "four"], 2, "write id=address").await;
    assert_member_rejected(&cluster, &["remove", "9"], 2, "the members are 1, 2, 3").await;
    assert_member_rejected(&cluster, &["transfer", "9"], 2, "the members are 1, 2, 3").await;

    // 2. A store of another cluster.
    let made = run_command(&["init", "--stores", &format!("5={other}")]).await;
    assert!(made.status.success(), "{made:?}");
    let foreign = format!("5={other}");
    assert_member_rejected(
        &cluster,
        &["add", &foreign],
        1,
        "belongs to another cluster",
    )
    .await;

    // 3. Wait for format level 2, which records used ids and needs no operator.
    wait_until("format level 2", TEST_TIMEOUT, async || {
        let leader = cluster.leader().await;
        let admin = cluster.new_client().admin();
        let status = admin.node_status(&cluster.store_addresses[leader]).await;
        let level = status.ok()?.counters.get("raft_format_level").copied();
        (level >= Some(2)).then_some(())
    })
    .await;

    // 4. A voter whose disk was wiped returns under its old id.
    let wiped = (cluster.leader().await + 1) % 3;
    let id = wiped + 1;
    cluster.kill_store(wiped);
    let dir = cluster.stores[wiped].arg("--data-dir").to_owned();
    std::fs::remove_dir_all(&dir).expect("the directory can be removed");
    cluster.stores[wiped].restart();
    wait_for_log(&cluster, wiped, &format!("`seqsvr member remove {id}`"), 1).await;
    let again = format!("{id}={}", cluster.store_addresses[wiped]);
    assert_member_rejected(&cluster, &["add", &again], 1, "ids are never reused").await;
    outcome
        .measure_call(admin.default_namespace().next(1))
        .await;

    // 5. While that store is missing, no living store can be removed, neither the leader nor the
    // other.
    for one in 1..=3 {
        if one != id {
            assert_member_rejected(
                &cluster,
                &["remove", &one.to_string()],
                1,
                "would lose its quorum",
            )
            .await;
        }
    }

    // 6. The steps that the text names: remove it, and return under a new id with an empty
    // directory.
    run_member_command(&cluster, &["remove", &id.to_string()]).await;
    assert_member_rejected(&cluster, &["add", &again], 1, "ids are never reused").await;
    cluster.stop_store(wiped).await;
    std::fs::remove_dir_all(&dir).expect("the directory can be removed");
    cluster.stores[wiped].set_arg("--id", "4");
    cluster.stores[wiped].restart();
    let new = format!("4={}", cluster.store_addresses[wiped]);
    run_member_command(&cluster, &["add", &new]).await;
    // The command also works at a StoreSvr, leader or not.
    for at in &cluster.store_addresses[..3] {
        let listed = run_command(&["member", "list", "--json", "--server", at]).await;
        assert!(listed.status.success(), "{listed:?}");
        assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count(), 3);
        let again = run_command(&["member", "add", &new, "--server", at]).await;
        assert!(again.status.success(), "{again:?}");
    }
    outcome
        .measure_call(admin.default_namespace().next(1))
        .await;
    cluster.assert_none_ended();
    outcome
}

/// Starts a store and adds it as a member.
async fn join_store(cluster: &mut ProcessCluster, id: u16, outcome: &mut ScenarioOutcome) {
    cluster.add_store(id);
    let address = cluster.store_addresses[usize::from(id) - 1].clone();
    let began = Instant::now();
    run_member_command(cluster, &["add", &format!("{id}={address}")]).await;
    let took = began.elapsed();
    outcome.note(format!("store {id} votes {took:.2?} after it was started"));
}

/// Removes a running store, waits until it logs its removal, and stops it.
async fn remove_store(cluster: &mut ProcessCluster, id: usize, outcome: &mut ScenarioOutcome) {
    let led = cluster.leader().await + 1;
    let began = Instant::now();
    run_member_command(cluster, &["remove", &id.to_string()]).await;
    let took = began.elapsed();
    let was = if led == id { "leader " } else { "" };
    outcome.note(format!("{was}store {id} removed in {took:.2?}"));
    let removed = "this node was removed from the cluster";
    wait_for_log(cluster, id - 1, removed, 1).await;
    cluster.stop_store(id - 1).await;
    // After a restart it logs its removal again, and harms nothing.
    let times = cluster.stores[id - 1].log().matches(removed).count();
    cluster.stores[id - 1].restart();
    wait_for_log(cluster, id - 1, removed, times + 1).await;
    cluster.stop_store(id - 1).await;
}

/// Runs `seqsvr member ...`, which must succeed. Returns its output.
async fn run_member_command(cluster: &ProcessCluster, args: &[&str]) -> String {
    let out = member_command(cluster, args).await;
    assert!(out.status.success(), "member {args:?}: {out:?}");
    String::from_utf8(out.stdout).expect("text")
}

/// Runs `seqsvr member ...`, which must fail with this code and this text.
async fn assert_member_rejected(cluster: &ProcessCluster, args: &[&str], code: i32, words: &str) {
    let out = member_command(cluster, args).await;
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "member {args:?}: {text}");
    assert!(text.contains(words), "member {args:?}: {text}");
}

async fn member_command(cluster: &ProcessCluster, args: &[&str]) -> std::process::Output {
    let server = cluster.alloc_addresses.join(",");
    let all = [
        &["member"],
        args,
        &["--server", &server, "--timeout", "60s"],
    ];
    run_command(&all.concat()).await
}

/// Returns the ids of the voters, in order. There must be no learner.
async fn voter_ids(cluster: &ProcessCluster) -> Vec<u64> {
    let listed = run_member_command(cluster, &["list", "--json"]).await;
    let each = listed.lines().map(|line| {
        let store: Value = serde_json::from_str(line).expect("JSON");
        assert_ne!(store["role"], "learner", "{listed}");
        store["id"].as_u64().expect("an id")
    });
    each.collect()
}

/// Waits until a store's log contains a text `times` times.
async fn wait_for_log(cluster: &ProcessCluster, store: usize, words: &str, times: usize) {
    wait_until(&format!("{words:?} in a log"), TEST_TIMEOUT, async || {
        let log = cluster.stores[store].log();
        (log.matches(words).count() >= times).then_some(())
    })
    .await;
}
