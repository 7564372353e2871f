//! A cluster is backed up under load, continues, is lost, and is restored from the backup.
//!
//! Fault: SIGKILL of all processes and loss of the data. With margins that cover the work since the
//! backup, no number repeats. Without margins, or with too small ones, the restore is rejected. If
//! the operator's margins were wrong, callers with a greater floor or epoch get an error, not a
//! lower number.

mod commands;
mod restored_twice;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use seqsvr_check::{CallAnswer, SequenceName};
use seqsvr_client::{FamilyChange, Key};
use seqsvr_core::layout::format_utc_ms;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::next_request::KeyKind;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NextRequest, Reason};
use seqsvr_test_support::callers::{GrpcCaller, TestCall, TestCaller};
use seqsvr_test_support::history::History;
use seqsvr_test_support::in_process::create_family;
use seqsvr_test_support::process::Signal;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::{RecordedLoad, UNTIL_STOPPED};
use seqsvr_test_support::test_keys::{self, TestKey};
use seqsvr_test_support::wait::wait_until;

use commands::{
    assert_restore_rejected, assert_success, parse_minimum, run_backup, run_restore,
    start_restored_cluster,
};

pub use restored_twice::backup_restored_twice;

use super::family_ids::{orders, take_rising};
use crate::scenario::{ScenarioOutcome, read_unix_ns};

const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Calls answered before the backup, during it, and after the restore.
const CALLS_PER_PHASE: u64 = 5_000;
const CALLS_DURING_BACKUP: u64 = 1_000;
/// After the backup: uids of sections unused before it, and as many that the load uses; numbers of
/// a call; and rounds of calls. Together 100,000 numbers.
const FRESH_UIDS: u64 = 2;
const NUMBERS_PER_CALL: u32 = 500;
const ROUNDS: usize = 50;
/// A margin far above what this run adds to one section.
const COVERING_MARGIN: &str = "100000000";

/// How far the grants of the AllocSvrs reach at most: the longest window and `ahead` of the family,
/// and the second by which store time may be older than the grants.
const GRANTS_REACH_MS: u64 = 12_000;

/// Index of the AllocSvr that survives the loss of the old cluster.
const SURVIVING_ALLOC: usize = 1;

fn fresh_keys(first_section: u64) -> Vec<TestKey> {
    let test_key = |i: u64| {
        let uid = (first_section + i) * 100_000 + 7;
        TestKey {
            namespace: "default",
            key: Key::Uid(uid),
            stride: NonZeroU64::MIN,
            sequence: SequenceName::for_uid("default", uid),
        }
    };
    (0..FRESH_UIDS).map(test_key).collect()
}

/// Makes and records one call of many items, all of which must be answered. Returns the answers.
async fn call_recorded(
    history: &mut History,
    caller: &TestCaller,
    ask: TestCall,
    items: &[TestKey],
) -> Vec<CallAnswer> {
    let items: Vec<&TestKey> = items.iter().collect();
    let begin = history.now_ns();
    let results = caller.call(0, ask, &items).await;
    let end = history.now_ns();
    let mut answers = Vec::new();
    for (test_key, result) in items.iter().zip(&results) {
        history.record(test_key, ask, begin, end, result);
        let (_, answer) = result.as_ref().expect("it is answered");
        answers.push(*answer);
    }
    answers
}

fn last_number(answer: &CallAnswer) -> u64 {
    match answer {
        CallAnswer::Next { last, .. } => *last,
        other => panic!("{other:?} is no number"),
    }
}

/// An AllocSvr of the old cluster continues and finds the new cluster at the stores' addresses. It
/// serves nothing of its own, and ends with one clear line. After a restart it joins the new
/// cluster.
async fn check_surviving_alloc(
    cluster: &mut ProcessCluster,
    history: &mut History,
    used: &[TestKey],
) {
    cluster.allocs[SURVIVING_ALLOC].signal(Signal::CONT);
    let address = std::slice::from_ref(&cluster.alloc_addresses[SURVIVING_ALLOC]);
    let plain = TestCaller::Grpc(GrpcCaller::new(address, cluster.new_client()));
    let items: Vec<&TestKey> = used.iter().collect();
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !cluster.allocs[SURVIVING_ALLOC].has_ended() {
        assert!(Instant::now() < deadline, "the old AllocSvr does not end");
        let begin = history.now_ns();
        let results = plain.call(0, TestCall::Next(1), &items).await;
        let end = history.now_ns();
        // Its answers until then must be right like any others.
        for (test_key, result) in items.iter().zip(&results) {
            history.record(test_key, TestCall::Next(1), begin, end, result);
        }
    }
    let status = cluster.allocs[SURVIVING_ALLOC]
        .wait_for_exit(TEST_TIMEOUT)
        .await;
    let log = cluster.allocs[SURVIVING_ALLOC].log();
    let last = log.lines().last().unwrap_or_default();
    assert!(
        !status.success() && last.contains("cluster mismatch"),
        "{log}"
    );
    cluster.allocs[SURVIVING_ALLOC].restart();
    cluster.wait_until_assigned(2).await;
}

/// Takes a backup under load and 100,000 more numbers, loses everything and restores: no number
/// repeats.
pub async fn backup_restore() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Load all sequences through every kind of caller.
    let mut cluster = ProcessCluster::start(3, 2, 3_000).await;
    let (callers, client) = crate::scenario::new_callers(&cluster, &cluster.alloc_addresses);
    let caller = TestCaller::Sdk(client.clone());
    test_keys::create_third_namespace(&client).await;
    let mut history = History::create(cluster.dir());
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        8,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    create_family(&client.admin(), &orders()).await;
    // A restored family waits as long as the longest grant may reach.
    let short = FamilyChange {
        window_max_ms: Some(10_000),
        ..FamilyChange::default()
    };
    let altered = client.admin().alter_family(&orders().name, short).await;
    altered.expect("it is altered");
    let mut greatest_id = 0;
    take_rising(&client, &mut greatest_id).await;

    // 2. Back up under load, under further names until enough calls were answered during it. A
    // backup is never overwritten.
    let file = cluster.dir().join("backup");
    let before = load.answered_calls();
    let report = assert_success(&run_backup(&cluster, &file).await);
    for word in ["cluster", "index", "sections", "largest window"] {
        assert!(report.contains(word), "no {word:?} in: {report}");
    }
    for line in report.lines() {
        outcome.note(format!("  {line}"));
    }
    let mut more = 0;
    while load.answered_calls() - before < CALLS_DURING_BACKUP {
        more += 1;
        let other = cluster.dir().join(format!("backup-{more}"));
        assert_success(&run_backup(&cluster, &other).await);
    }
    outcome.calls_during_fault = load.answered_calls() - before;
    let backup_bytes = std::fs::read(&file).expect("the backup");
    let second_backup = run_backup(&cluster, &file).await;
    assert!(!second_backup.status.success(), "{second_backup:?}");
    assert!(String::from_utf8_lossy(&second_backup.stderr).contains("never overwritten"));
    assert_eq!(std::fs::read(&file).expect("the backup"), backup_bytes);

    // 3. Take more numbers, of sections in the backup and of others, while the load continues.
    let mut used = fresh_keys(400);
    used.extend_from_slice(&test_keys::all_test_keys()[0][..FRESH_UIDS as usize]);
    let mut reached = Vec::new();
    for _ in 0..ROUNDS {
        reached = call_recorded(
            &mut history,
            &caller,
            TestCall::Next(NUMBERS_PER_CALL),
            &used,
        )
        .await;
    }
    take_rising(&client, &mut greatest_id).await;
    let numbers = used.len() * NUMBERS_PER_CALL as usize * ROUNDS;
    assert_eq!(numbers, 100_000);
    load.wait_for_calls(CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let summary = load.stop().await;
    outcome.add_load("before the loss", &summary);
    summary.assert_none_failed();

    // 4. Lose everything except one forgotten AllocSvr.
    cluster.allocs[SURVIVING_ALLOC].signal(Signal::STOP);
    for process in cluster.stores.iter_mut().chain([&mut cluster.allocs[0]]) {
        process.kill();
    }

    // 5. Rejected restores create nothing.
    let dir = cluster.dir().join("restored-1");
    let without_margins = run_restore(&cluster, &file, &dir, &[]).await;
    assert_eq!(without_margins.status.code(), Some(2));
    let words = [
        "--max-seq-margin",
        "--start-margin",
        "--epoch-margin",
        "was made",
        "largest window",
        "numbers added a second",
    ];
    let rejection = assert_restore_rejected(&without_margins, &dir, &words);
    for line in rejection.lines() {
        outcome.note(format!("  {line}"));
    }
    let window = parse_minimum(&rejection, "--max-seq-margin");
    let low = (window.parse::<u64>().expect("a number") - 1).to_string();
    let margins = |max_seq| {
        let rest = [
            ("--start-margin", COVERING_MARGIN),
            ("--epoch-margin", "1000"),
        ];
        [[("--max-seq-margin", max_seq)].as_slice(), &rest].concat()
    };
    let without_ids = run_restore(&cluster, &file, &dir, &margins(COVERING_MARGIN)).await;
    assert_restore_rejected(
        &without_ids,
        &dir,
        &["--ids-from must be", "families of ids"],
    );
    let small = run_restore(&cluster, &file, &dir, &margins(&low)).await;
    assert_restore_rejected(&small, &dir, &["at least", &window]);
    let damaged = cluster.dir().join("damaged");
    for at in [0, 20, backup_bytes.len() / 2, backup_bytes.len() - 1] {
        let mut bytes = backup_bytes.clone();
        bytes[at] ^= 4;
        std::fs::write(&damaged, &bytes).expect("written");
        let output = run_restore(&cluster, &damaged, &dir, &margins(COVERING_MARGIN)).await;
        assert_restore_rejected(&output, &dir, &["not a complete backup"]);
        std::fs::write(&damaged, &backup_bytes[..at]).expect("written");
        let output = run_restore(&cluster, &damaged, &dir, &margins(COVERING_MARGIN)).await;
        assert_restore_rejected(&output, &dir, &["not a complete backup", "cut short"]);
    }
    let ids_from = format_utc_ms((read_unix_ns() / 1_000_000) + GRANTS_REACH_MS);
    let mut covering = margins(COVERING_MARGIN);
    covering.push(("--ids-from", &ids_from));
    let taken = PathBuf::from(cluster.stores[0].arg("--data-dir"));
    let over = run_restore(&cluster, &file, &taken, &covering).await;
    assert!(!over.status.success(), "{over:?}");
    let errors = String::from_utf8_lossy(&over.stderr);
    assert!(errors.contains("not empty"), "{errors}");

    // 6. Restore with margins that cover the work since the backup, and all ticks that a holder of
    // the old cluster can have.
    assert_success(&run_restore(&cluster, &file, &dir, &covering).await);
    start_restored_cluster(&mut cluster, &dir, 1).await;
    check_surviving_alloc(&mut cluster, &mut history, &used).await;
    let (callers, new) = crate::scenario::new_callers(&cluster, &cluster.alloc_addresses);
    let caller = TestCaller::Sdk(new.clone());

    // 7. Unused keys have a bound, and used keys continue above their last number.
    for answer in call_recorded(&mut history, &caller, TestCall::Current, &fresh_keys(500)).await {
        assert!(
            matches!(answer, CallAnswer::AtMost(_)),
            "{answer:?}: an earlier cluster may have used it"
        );
    }
    for (before, after) in reached
        .iter()
        .zip(call_recorded(&mut history, &caller, TestCall::Next(1), &used).await)
    {
        let (before, after) = (last_number(before), last_number(&after));
        assert!(after > before, "{after} after {before}");
        let least = window.parse::<u64>().expect("a number");
        assert!(before > least, "the margins are not tried");
    }

    take_rising(&new, &mut greatest_id).await;

    // 8. The new cluster serves. A client of the old cluster rejects its answers.
    let load = RecordedLoad::start(
        &history,
        test_keys::all_test_keys(),
        &callers,
        8,
        UNTIL_STOPPED,
    );
    load.wait_for_calls(4 * CALLS_PER_PHASE, TEST_TIMEOUT).await;
    let stale = client
        .default_namespace()
        .next(7)
        .await
        .expect_err("another cluster");
    let text = stale.to_string();
    for part in ["cluster mismatch", "restored from a backup", "new client"] {
        assert!(text.contains(part), "{text} lacks {part}");
    }

    // 9. No call failed, and the history holds.
    let summary = load.stop().await;
    outcome.add_load("after the restore", &summary);
    summary.assert_none_failed();
    cluster.assert_none_ended();
    history.check();
    outcome
}

/// With margins that were too small, a caller that shows a greater floor or epoch gets an error.
pub async fn restore_with_low_margins() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Back up, then go further than the least margins cover, in numbers and in epochs.
    let mut cluster = ProcessCluster::start(1, 1, 3_000).await;
    let client = cluster.new_client();
    let numbers = client.default_namespace();
    outcome.measure_call(numbers.next(42)).await;
    let file = cluster.dir().join("backup");
    assert_success(&run_backup(&cluster, &file).await);
    let patient = client.with_deadline(TEST_TIMEOUT);
    let raise = numbers.raise_to(42, 50_000_000);
    outcome.measure_call(raise).await;
    for _ in 0..3 {
        cluster.allocs[0].stop(TEST_TIMEOUT).await;
        cluster.allocs[0].restart();
        cluster.wait_until_assigned(1).await;
    }
    let last_issued = outcome
        .measure_call(patient.default_namespace().next(42))
        .await;
    assert!(last_issued.last > 50_000_000);

    // 2. Lose the cluster, and restore it with the least margins.
    for process in cluster.all_processes() {
        process.kill();
    }

    let dir = cluster.dir().join("restored-1");
    let rejection =
        assert_restore_rejected(&run_restore(&cluster, &file, &dir, &[]).await, &dir, &[]);
    let flags = ["--max-seq-margin", "--start-margin", "--epoch-margin"];
    let values = flags.map(|flag| parse_minimum(&rejection, flag));
    let margins: Vec<_> = flags
        .into_iter()
        .zip(values.iter().map(String::as_str))
        .collect();
    assert_success(&run_restore(&cluster, &file, &dir, &margins).await);
    start_restored_cluster(&mut cluster, &dir, 1).await;

    // 3. A caller with a greater floor or epoch gets an error, which is counted.
    let address = cluster.alloc_addresses[0].clone();
    let mut plain = wait_until("a connection", TEST_TIMEOUT, async || {
        SequenceClient::connect(format!("http://{address}"))
            .await
            .ok()
    })
    .await;
    let request = |floor, epoch| NextRequest {
        key_kind: Some(KeyKind::Uid(42)),
        floor,
        epoch,
        ..NextRequest::default()
    };
    for (alarms, request) in [
        (1, request(Some(last_issued.last), None)),
        (2, request(None, Some(last_issued.epoch))),
        (3, request(Some(last_issued.last), Some(last_issued.epoch))),
    ] {
        let status = plain.next(request).await.expect_err("it must be rejected");
        let fault = RpcError::from_status(&status);
        assert_eq!(fault.reason(), Reason::FloorAhead, "{fault}");
        assert_eq!(status.code(), seqsvr_client::Code::InvalidArgument);
        let counted = cluster.sum_counter(&cluster.alloc_addresses, "causality_violations");
        assert_eq!(counted.await, alarms);
        outcome.note(format!("rejected: {fault}"));
    }

    // 4. A caller of the new cluster is served.
    let new = cluster.new_client();
    let first = outcome.measure_call(new.default_namespace().next(42)).await;
    let second = outcome.measure_call(new.default_namespace().next(42)).await;
    assert_eq!(second.first, first.last + 1);
    cluster.assert_none_ended();
    outcome
}
