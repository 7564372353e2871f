//! Every process is killed at once under load and started again.

use std::time::{Duration, Instant};

use seqsvr_check::Answer;
use seqsvr_tests::caller::Ask;
use seqsvr_tests::cluster::Cluster;
use seqsvr_tests::history::History;
use seqsvr_tests::load::{Load, UNTIL_STOPPED};
use seqsvr_tests::subject;

const EACH: u64 = 5_000;
const PATIENCE: Duration = Duration::from_secs(30);
const FIRST_WITHIN: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_promise_holds_across_the_death_of_all() {
    let _alone = crate::ALONE.lock().await;
    let mut cluster = Cluster::start(3, 2, 3_000).await;
    let (callers, client) = crate::callers(&cluster, &cluster.alloc_addresses);
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
    history.record(&probe, Ask::Next(1), begin, end, &Ok((n.epoch, next)));
    println!("first number {took:.2?} after the last start");
    assert!(took <= FIRST_WITHIN, "{took:?}");

    cluster.whole(2).await;
    load.answer_more(EACH, PATIENCE).await;
    let summary = load.stop().await;
    crate::tell("load", &summary);
    println!(
        "answered before {before}, after {}",
        summary.answered - before
    );
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.answered() >= 2 * EACH && report.ordered_pairs > 50_000);
}
