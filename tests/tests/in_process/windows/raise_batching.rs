//! Raises of many sections and AllocSvrs share log entries and fsyncs.
//!
//! Measured: log entries and fsyncs of each store while 10,000 raises are due.

use std::time::Instant;

use futures::future::join_all;
use seqsvr_client::NextItem;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_namespace, dense_namespace, new_client, read_counter,
};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

const SECTIONS: u64 = 10_000;
const STEP: u32 = 100;
const ENTRIES_MAX: u64 = 600;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn raises_of_ten_thousand_sections_are_coalesced() {
    // 1. Load 10,000 sections.
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    create_namespace(&allocs, &dense_namespace("cells", 1, SECTIONS, STEP)).await;
    let client = new_client(&allocs).with_deadline(TEST_TIMEOUT);
    let take = async |count: u32| {
        let items: Vec<NextItem> = (0..SECTIONS)
            .map(|uid| NextItem::new(uid).with_count(count))
            .collect();
        for (uid, answer) in client
            .namespace("cells")
            .next_batch(&items)
            .await
            .iter()
            .enumerate()
        {
            assert!(answer.is_ok(), "uid {uid}: {answer:?}");
        }
    };
    take(1).await;
    let raises = async || {
        let mut each = Vec::new();
        for alloc in &allocs {
            each.push(read_counter(alloc, "raises").await);
        }
        each
    };
    assert_eq!(raises().await, [0, 0], "opening raises nothing");
    let store_counters = || join_all((0..3).map(|store| cluster.store_counters(store)));
    let before = store_counters().await;

    // 2. Take half of each window at once: a raise is due on every section.
    let began = Instant::now();
    take(STEP / 2).await;
    wait_until("all raises", TEST_TIMEOUT, async || {
        (raises().await.iter().sum::<u64>() >= SECTIONS).then_some(())
    })
    .await;
    let took = began.elapsed();
    let each = raises().await;

    // 3. The raises shared few entries and fsyncs.
    let after = store_counters().await;
    assert!(each.iter().all(|n| *n > SECTIONS / 4), "{each:?}");
    for (i, (before, after)) in before.iter().zip(&after).enumerate() {
        let grew = |name: &str| after[name] - before[name];
        println!(
            "coalesced raises: store {}: raise entries {}, raises {}, opens {}, fsyncs {}, after {took:.2?}, allocs raised {each:?}",
            i + 1,
            grew("proposer_raise_entries"),
            grew("proposer_raises"),
            grew("proposer_opens"),
            grew("raft_log_syncs"),
        );
        assert!(grew("proposer_raise_entries") <= ENTRIES_MAX);
        assert!(grew("raft_log_syncs") <= ENTRIES_MAX);
        assert_eq!(grew("proposer_opens"), 0);
    }
    let total = |name: &str| -> u64 {
        let grown = before.iter().zip(&after);
        grown
            .map(|(before, after)| after[name] - before[name])
            .sum()
    };
    assert!(total("proposer_raises") >= SECTIONS);
    assert!(total("proposer_raise_entries") > 0);
    cluster.stop(&allocs).await;
}
