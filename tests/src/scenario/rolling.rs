//! Every process is restarted, one after the other, as an upgrade does it, in an acceptance run to a
//! rebuilt binary: not one call fails.

use std::time::{Duration, Instant};

use super::Outcome;
use crate::cluster::Cluster;
use crate::history::History;
use crate::load::{Load, UNTIL_STOPPED};
use crate::probe::Probe;
use crate::process::{Process, Signal, binary, upgraded};
use crate::subject;
use crate::wait::until;

const EACH: u64 = 1_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// SIGTERM, exit, start, whole again: three stores and three AllocSvrs.
pub async fn rolling_restart() -> Outcome {
    let mut outcome = Outcome::default();
    let to = match binary() == upgraded() {
        true => "the same build",
        false => {
            let (old, new) = (std::fs::read(binary()), std::fs::read(upgraded()));
            assert!(old.unwrap() != new.unwrap(), "a copy is no rebuilt binary");
            "another build"
        }
    };
    let mut cluster = Cluster::start(3, 3, 3_000).await;
    let (callers, client) = super::callers_that_try_again(&cluster);
    subject::make_third(&client).await;
    let history = History::create(cluster.dir());
    let load = Load::start(&history, subject::all(), &callers, 6, UNTIL_STOPPED);
    let probe = Probe::start(&history, &client).await;
    load.answer_more(EACH, PATIENCE).await;
    let before = load.answered();
    let began = Instant::now();
    for store in 0..3 {
        restart(&mut cluster.stores[store]).await;
        let address = [cluster.store_addresses[store].clone()];
        let leader = cluster.leader().await;
        let goal = [cluster.store_addresses[leader].clone()];
        let goal = cluster.counter(&goal, "raft_applied_index").await;
        until("the restarted store to catch up", PATIENCE, async || {
            let admin = client.admin();
            let status = admin.node_status(&address[0]).await.ok()?;
            (status.counters["raft_applied_index"] >= goal).then_some(())
        })
        .await;
        load.answer_more(EACH, PATIENCE).await;
    }
    for alloc in 0..3 {
        restart(&mut cluster.allocs[alloc]).await;
        cluster.whole(3).await;
        load.answer_more(EACH, PATIENCE).await;
    }
    outcome.inside = load.answered() - before;
    outcome.note(format!(
        "six processes restarted to {to} in {:.1?}",
        began.elapsed()
    ));
    let summary = load.stop().await;
    outcome.add("load", &summary);
    assert_eq!(summary.failed, 0, "{:?}", summary.failures);
    super::planned::skipped_nothing(probe, &mut outcome).await;
    cluster.assert_none_ended();
    let report = history.check();
    assert!(report.ordered_pairs > 50_000);
    outcome
}

async fn restart(process: &mut Process) {
    process.signal(Signal::TERM);
    let status = process.wait_exit(PATIENCE).await;
    assert!(status.success(), "{status}");
    process.set_binary(upgraded());
    process.restart();
}
