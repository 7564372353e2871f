//! Recovery times of a large cluster.
//!
//! Fault: stores that hold many sections are killed one by one and all at once, and the only owner
//! of all slots is killed. Measured: time until a store serves, until a new AllocSvr answers, and
//! until all slots have a new owner. Needs a quiet machine.

use std::time::{Duration, Instant};

use seqsvr_client::{Client, ClientOptions, NextItem};
use seqsvr_core::geometry::Geometry;
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::NamespaceSpec;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::wait_until;

use super::faults::owner_killed::count_timer_restarts;
use crate::scenario::ScenarioOutcome;

const LEASE_MS: u32 = 3_000;
/// W = 1.25 x D.
const TAKEOVER_WAIT: Duration = Duration::from_millis(LEASE_MS as u64 * 5 / 4);
const NAMESPACES: u32 = 10;
/// Sections of each namespace: as many as 32-bit uids need by default.
const SECTIONS_PER_NAMESPACE: u64 = 42_950;
/// Uids of one call.
const BATCH_ITEMS: u64 = 1_000;
const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time from exec until a StoreSvr with all sections serves.
const STORE_START_LIMIT: Duration = Duration::from_secs(2);
/// Maximum time from exec until a new AllocSvr answers.
const ALLOC_START_LIMIT: Duration = Duration::from_millis(300);
/// Maximum time that the takeover of 1,024 slots may add to W.
const TAKEOVER_ADDED_LIMIT: Duration = Duration::from_millis(500);
/// Attempts of each measurement. The best counts, so that one slow moment of the machine does not
/// decide.
const ATTEMPTS: usize = 3;

/// Fills the stores, then measures.
pub async fn large() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();
    let mut cluster = ProcessCluster::start(3, 1, LEASE_MS).await;
    let client = cluster.new_client().with_deadline(TEST_TIMEOUT);
    fill_stores(&mut outcome, &cluster, &client).await;
    measure_store_restarts(&mut outcome, &mut cluster).await;
    measure_new_alloc(&mut outcome, &mut cluster).await;
    measure_takeover(&mut outcome, &mut cluster).await;
    cluster.assert_none_ended();
    outcome
}

fn namespace_name(n: u32) -> String {
    format!("large-{n}")
}

/// Takes one number of each section.
async fn fill_stores(outcome: &mut ScenarioOutcome, cluster: &ProcessCluster, client: &Client) {
    let began = Instant::now();
    for n in 0..NAMESPACES {
        // Each uid has its own section.
        let geometry = Geometry::Dense {
            section_size: 1,
            max_uid: SECTIONS_PER_NAMESPACE,
        };
        let spec = NamespaceSpec::new(&namespace_name(n), geometry);
        client
            .admin()
            .create_namespace(&spec)
            .await
            .expect("the namespace is created");
        for from in (0..SECTIONS_PER_NAMESPACE).step_by(BATCH_ITEMS as usize) {
            let uids = from..SECTIONS_PER_NAMESPACE.min(from + BATCH_ITEMS);
            let items: Vec<NextItem> = uids.map(NextItem::new).collect();
            let sent = Instant::now();
            for answer in client
                .namespace(&namespace_name(n))
                .next_batch(&items)
                .await
            {
                answer.expect("it is answered");
                outcome.add_call(sent.elapsed());
            }
        }
    }
    let opens = cluster.sum_counter(&cluster.alloc_addresses, "opens").await;
    assert!(
        opens >= u64::from(NAMESPACES) * SECTIONS_PER_NAMESPACE,
        "{opens} opens"
    );
    outcome.note(format!(
        "{opens} sections opened in {:.1?}",
        began.elapsed()
    ));
}

/// Restarts each store alone, then all at once.
async fn measure_store_restarts(outcome: &mut ScenarioOutcome, cluster: &mut ProcessCluster) {
    // 1. Each store alone.
    let admin = cluster.new_client().admin();
    let mut best = Duration::MAX;
    for i in 0..cluster.stores.len() {
        let address = cluster.store_addresses[i].clone();
        let applied = async || -> Option<u64> {
            let status = admin.node_status(&address).await.ok()?;
            status.counters.get("raft_applied_index").copied()
        };
        let before = applied().await.expect("it answers");
        cluster.kill_store(i);
        let began = Instant::now();
        cluster.stores[i].restart();
        wait_until("the store to be where it was", TEST_TIMEOUT, async || {
            applied().await.filter(|now| *now >= before)
        })
        .await;
        best = best.min(began.elapsed());
        outcome.note(format!(
            "store {} serves {:.2?} after exec",
            i + 1,
            began.elapsed()
        ));
        cluster.leader().await;
    }
    judge_duration(outcome, "a store serves", best, STORE_START_LIMIT);

    // 2. All stores at once.
    for store in &mut cluster.stores {
        store.kill();
    }
    let began = Instant::now();
    for store in &mut cluster.stores {
        store.restart();
    }
    // A strict call is answered after a round of a majority under a leader.
    let strict = cluster.new_client().with_deadline(TEST_TIMEOUT).strict();
    strict
        .namespace(&namespace_name(0))
        .next(0)
        .await
        .expect("it is answered");
    outcome.note(format!(
        "all three serve {:.2?} after exec, election included",
        began.elapsed()
    ));
}

/// Starts an AllocSvr with a new name, which must answer a call.
async fn measure_new_alloc(outcome: &mut ScenarioOutcome, cluster: &mut ProcessCluster) {
    let mut best = Duration::MAX;
    for i in 0..ATTEMPTS {
        let began = Instant::now();
        cluster.add_alloc(&format!("new{i}"), &[]);
        let address = cluster
            .alloc_addresses
            .last()
            .expect("it was added")
            .clone();
        let options = ClientOptions::new([address]);
        // A new client for each attempt: it has no backoff from an attempt that found no server.
        let number = wait_until("its first number", TEST_TIMEOUT, async || {
            let client = Client::new(options.clone()).expect("a good address");
            let client = client.with_deadline(Duration::from_millis(200));
            client.namespace("default").next(7).await.ok()
        })
        .await;
        assert!(number.first > 0);
        let took = began.elapsed();
        outcome.add_call(took);
        outcome.note(format!("a new alloc answers {took:.2?} after exec"));
        best = best.min(took);
    }
    judge_duration(outcome, "a new alloc answers", best, ALLOC_START_LIMIT);
}

/// Kills the only owner of all slots. Another AllocSvr takes them over.
async fn measure_takeover(outcome: &mut ScenarioOutcome, cluster: &mut ProcessCluster) {
    // This client has all addresses. The only owner cannot send it elsewhere after its death.
    let client = cluster.new_client().with_deadline(TEST_TIMEOUT);
    let mut best = Duration::MAX;
    for i in 0..ATTEMPTS {
        // 1. Drain the other AllocSvrs, so that the victim owns all slots.
        let (victim, successor) = (i, i + 1);
        let names = ["a1", "new0", "new1", "new2"];
        let admin = client.admin();
        for name in names.iter().skip(successor) {
            admin.drain(name, false).await.expect("it drains");
        }
        wait_until("the victim to own all slots", TEST_TIMEOUT, async || {
            let status = admin.cluster_status().await.ok()?;
            let owners: Vec<_> = status.sessions.iter().filter(|s| s.slots > 0).collect();
            let alone = owners.len() == 1 && owners[0].name == names[victim];
            (alone && status.free_slots == 0).then_some(())
        })
        .await;

        // 2. Undo the drain of its successor, and kill the victim.
        let slot_uids = pick_uid_per_slot(&client).await;
        let before = count_timer_restarts(cluster).await;
        admin
            .drain(names[successor], true)
            .await
            .expect("it is undone");
        let killed = Instant::now();
        cluster.kill_alloc(victim);

        // 3. A key of each slot must be served elsewhere.
        for answer in client.namespace("default").next_batch(&slot_uids).await {
            answer.expect("it is served elsewhere");
            outcome.add_call(killed.elapsed());
        }
        let took = killed.elapsed();
        let restarted_timers = count_timer_restarts(cluster).await - before;
        outcome.note(format!(
            "{} slots of a dead owner are served {took:.2?} after its end, with W = {TAKEOVER_WAIT:.2?}; timers restarted: {restarted_timers}",
            slot_uids.len()
        ));
        if restarted_timers == 0 {
            best = best.min(took.saturating_sub(TAKEOVER_WAIT));
        }
    }
    judge_duration(
        outcome,
        "taking over all slots adds",
        best,
        TAKEOVER_ADDED_LIMIT,
    );
}

/// Returns a uid of each slot.
async fn pick_uid_per_slot(client: &Client) -> Vec<NextItem> {
    let table = client.routes().await.expect("there is a table");
    let namespace = table.namespace("default").expect("there is one");
    let mut slot_uids = vec![None; table.slot_count() as usize];
    for uid in (0..42_950).map(|section| section * 100_000) {
        let placed = table.locate(namespace, KeyRef::Uid(uid));
        let (_, slot) = placed.expect("a place");
        slot_uids[usize::from(slot.0)] = Some(uid);
    }
    let uids = slot_uids.into_iter().flatten();
    uids.map(NextItem::new).collect()
}

/// Notes a measurement, and records it as missed if it is over its limit.
fn judge_duration(outcome: &mut ScenarioOutcome, what: &str, took: Duration, within: Duration) {
    let text = format!("{what} {took:.2?}, in the best attempt; at most {within:.2?} is allowed");
    match took <= within {
        true => outcome.note(text),
        false => outcome.missed_limits.push(text),
    }
}
