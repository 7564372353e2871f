//! Five processes answer 200,000 mixed calls without a fault.
//!
//! The exact check passes their history, and finds a violation in the same history with one planted
//! fault.

use std::time::Instant;

use seqsvr_check::{Rule, check_file};

use super::Outcome;
use crate::cluster::Cluster;
use crate::history::History;
use crate::load::Load;
use crate::process::run;
use crate::subject::{self, SUBJECTS};

const CALLS: u64 = 200_000;

/// Every call is answered, the check passes, and it detects planted faults.
pub async fn five_processes() -> Outcome {
    let mut outcome = Outcome::default();
    let mut cluster = Cluster::start(3, 2, 3_000).await;
    let (callers, client) = super::callers(&cluster, &cluster.alloc_addresses);
    subject::make_third(&client).await;
    let history = History::create(cluster.dir());
    let path = history.path().to_owned();
    let started = Instant::now();
    let load = Load::start(&history, subject::all(), &callers, 24, CALLS);
    let summary = load.finish().await;
    outcome.note(format!("{CALLS} calls in {:.1?}", started.elapsed()));
    outcome.add("load", &summary);
    assert_eq!(
        (summary.answered, summary.failed),
        (CALLS, 0),
        "{:?}",
        summary.failures
    );
    cluster.assert_none_ended();
    let forwarded = cluster.counter(&cluster.alloc_addresses, "forwarded").await;
    outcome.note(format!("forwarded for plain callers: {forwarded}"));
    assert!(forwarded > CALLS / 10);
    let report = history.check();
    assert_eq!((report.answered(), report.calls), (CALLS, CALLS));
    assert_eq!(report.sequences, SUBJECTS);
    assert!(report.raise_to > 1_000 && report.current > 10_000);
    assert!(report.ordered_pairs > 1_000_000 && report.concurrency_max > 4);

    let whole = std::fs::read_to_string(&path).unwrap();
    let (a, b) = two_calls_in_order(&whole);
    for (name, rule, lines) in [
        ("duplicate", Rule::Duplicate, vec![(b, with_numbers(b, a))]),
        (
            "swap",
            Rule::Order,
            vec![(a, with_numbers(a, b)), (b, with_numbers(b, a))],
        ),
    ] {
        let mut planted = whole.clone();
        for (old, new) in lines {
            planted = planted.replace(&format!("{old}\n"), &format!("{new}\n"));
        }
        let path = path.with_extension(name);
        std::fs::write(&path, planted).unwrap();
        let report = check_file(&path).unwrap();
        outcome.note(format!("one planted {name}: {:?}", report.broken));
        assert!(report.broken.contains_key(&rule), "{name}: {report}");
        let out = run(&["check", &path.display().to_string()]).await;
        assert_eq!(out.status.code(), Some(1), "{name}: {out:?}");
    }
    let out = run(&["check", &path.display().to_string()]).await;
    assert_eq!(out.status.code(), Some(0), "{out:?}");
    outcome
}

/// Returns two answered `next` of one sequence that took equally many numbers, the first of which
/// ended before the second began.
fn two_calls_in_order(history: &str) -> (&str, &str) {
    let mut last: std::collections::HashMap<(&str, u64), &str> = std::collections::HashMap::new();
    for line in history.lines().filter(|l| l.contains("\tnext\tok")) {
        let (sequence, begin, _, first, end) = columns(line);
        let before = last.insert((sequence, end - first), line);
        if let Some(before) = before
            && columns(before).2 < begin
        {
            return (before, line);
        }
    }
    panic!("no two calls in order");
}

/// Parses sequence, begin, end, first, last.
fn columns(line: &str) -> (&str, u64, u64, u64, u64) {
    let mut columns = line.split('\t');
    let sequence = columns.next().unwrap();
    let mut number = || columns.next().unwrap().parse().unwrap();
    (sequence, number(), number(), number(), number())
}

/// Replaces the numbers of a line by those of another.
fn with_numbers(line: &str, other: &str) -> String {
    let mut columns: Vec<&str> = line.split('\t').collect();
    let other: Vec<&str> = other.split('\t').collect();
    columns[3..5].copy_from_slice(&other[3..5]);
    columns.join("\t")
}
