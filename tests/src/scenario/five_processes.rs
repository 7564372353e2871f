//! Five processes answer 200,000 mixed calls without a fault.
//!
//! The exact check passes their history, and finds a violation in the same history with one planted
//! fault.

use std::time::Instant;

use seqsvr_check::{HistoryRule, check_file};
use seqsvr_test_support::history::History;
use seqsvr_test_support::process::run_command;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::recorded_load::RecordedLoad;
use seqsvr_test_support::test_keys::{self, TEST_KEYS};

use crate::scenario::ScenarioOutcome;

const CALLS: u64 = 200_000;

/// Every call is answered, the check passes, and it detects planted faults.
pub async fn five_processes() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Make all calls through every kind of caller.
    let mut cluster = ProcessCluster::start(3, 2, 3_000).await;
    let (callers, client) = crate::scenario::new_callers(&cluster, &cluster.alloc_addresses);
    test_keys::create_third_namespace(&client).await;
    let history = History::create(cluster.dir());
    let path = history.path().to_owned();
    let started = Instant::now();
    let load = RecordedLoad::start(&history, test_keys::all_test_keys(), &callers, 24, CALLS);
    let summary = load.wait_until_done().await;
    outcome.note(format!("{CALLS} calls in {:.1?}", started.elapsed()));
    outcome.add_load("load", &summary);
    assert_eq!(
        (summary.answered, summary.failed),
        (CALLS, 0),
        "{:?}",
        summary.failures
    );

    // 2. Every call was answered, many through forwarding, and the history holds.
    cluster.assert_none_ended();
    let forwarded = cluster
        .sum_counter(&cluster.alloc_addresses, "forwarded")
        .await;
    outcome.note(format!("forwarded for plain callers: {forwarded}"));
    assert!(forwarded > CALLS / 10);
    let report = history.check();
    assert_eq!((report.answered_calls(), report.calls), (CALLS, CALLS));
    assert_eq!(report.sequences, TEST_KEYS);
    assert!(report.raise_to > 1_000 && report.current > 10_000);
    assert!(report.ordered_pairs > 1_000_000 && report.concurrency_max > 4);

    // 3. The check finds a planted fault in the same history.
    let history_text = std::fs::read_to_string(&path).unwrap();
    let (a, b) = find_two_ordered_calls(&history_text);
    for (name, rule, lines) in [
        (
            "duplicate",
            HistoryRule::Duplicate,
            vec![(b, replace_numbers(b, a))],
        ),
        (
            "swap",
            HistoryRule::Order,
            vec![(a, replace_numbers(a, b)), (b, replace_numbers(b, a))],
        ),
    ] {
        let mut planted = history_text.clone();
        for (old, new) in lines {
            planted = planted.replace(&format!("{old}\n"), &format!("{new}\n"));
        }
        let path = path.with_extension(name);
        std::fs::write(&path, planted).unwrap();
        let report = check_file(&path).unwrap();
        outcome.note(format!("one planted {name}: {:?}", report.broken_rules));
        assert!(report.broken_rules.contains_key(&rule), "{name}: {report}");
        let out = run_command(&["check", &path.display().to_string()]).await;
        assert_eq!(out.status.code(), Some(1), "{name}: {out:?}");
    }

    // 4. The command `check` passes the original.
    let out = run_command(&["check", &path.display().to_string()]).await;
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    outcome
}

/// Returns two answered `next` of one sequence that took equally many numbers, the first of which
/// ended before the second began.
fn find_two_ordered_calls(history: &str) -> (&str, &str) {
    let mut last: std::collections::HashMap<(&str, u64), &str> = std::collections::HashMap::new();
    for line in history.lines().filter(|l| l.contains("\tnext\tok")) {
        let (sequence, begin, _, first, end) = parse_columns(line);
        let before = last.insert((sequence, end - first), line);
        if let Some(before) = before
            && parse_columns(before).2 < begin
        {
            return (before, line);
        }
    }
    panic!("no two calls in order");
}

/// Parses sequence, begin, end, first, last.
fn parse_columns(line: &str) -> (&str, u64, u64, u64, u64) {
    let mut columns = line.split('\t');
    let sequence = columns.next().unwrap();
    let mut number = || columns.next().unwrap().parse().unwrap();
    (sequence, number(), number(), number(), number())
}

/// Replaces the numbers of a line by those of another.
fn replace_numbers(line: &str, other: &str) -> String {
    let mut columns: Vec<&str> = line.split('\t').collect();
    let other: Vec<&str> = other.split('\t').collect();
    columns[3..5].copy_from_slice(&other[3..5]);
    columns.join("\t")
}
