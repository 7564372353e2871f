//! All processes are killed at once under load and restarted.
//!
//! Fault: SIGKILL of three stores and two AllocSvrs. Measured: time until the first number, and the
//! exact check over the calls before and after.

use std::time::{Duration, Instant};

use seqsvr_check::Answer;

use super::Outcome;
use crate::caller::Ask;
use crate::cluster::Cluster;
use crate::history::History;
use crate::load::{Load, UNTIL_STOPPED};
use crate::subject;

const EACH: u64 = 5_000;
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_WITHIN: Duration = Duration::from_secs(12);

/// Kills and restarts all processes. The first number must come within 12 s.
pub async fn all_killed() -> Outcome {
    let mut outcome = Outcome::default();
    let mut cluster = Cluster::start(3, 2, 3_000).await;
    let (callers, client) = super::callers(&cluster, &cluster.alloc_addresses);
    subject::make_third(&client).await;
    let mut history = History::create(cluster.dir());
    let load = Load::start(&history, subject::all(), &callers, 12, UNTIL_STOPPED);
    load.answer_more(EACH, PATIENCE).await;

    cluster.all().for_each(|p| p.kill());
    cluster.all().for_each(|p| p.reap());
    let before = load.answered();
    cluster.all().for_each(|p| p.restart());
    let restarted = Instant::now();
    let probe = subject::all()[0][0].clone();
    let newcomer = cluster.client().with_deadline(PATIENCE);
    let begin = history.now();
    let numbers = newcomer.next(probe.namespace, probe.key.clone(), 1).await;
    let (took, end) = (restarted.elapsed(), history.now());
    let n = numbers.expect("a number after the restart");
    let (first, last, stride) = (n.first, n.last, probe.stride);
    let next = Answer::Next {
        first,
        last,
        stride,
    };
    history.record(&probe, Ask::Next(1), begin, end, &Ok((Some(n.epoch), next)));
    outcome.add_call(took);
    outcome.note(format!("first number {took:.2?} after the last start"));
    assert!(took <= FIRST_WITHIN, "{took:?}");

    cluster.whole(2).await;
    load.answer_more(EACH, PATIENCE).await;
    let summary = load.stop().await;
    outcome.add("load", &summary);
    outcome.note(format!(
        "answered before {before}, after {}",
        summary.answered - before
    ));
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.answered() >= 2 * EACH && report.ordered_pairs > 50_000);
    outcome
}
