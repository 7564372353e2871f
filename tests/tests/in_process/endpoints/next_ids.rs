//! Ids of families that AllocSvrs make.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use seqsvr_client::{FamilyChange, FamilyHandle, FamilySpec, Reason, WorkerId};
use seqsvr_core::layout::TickScale;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::ids_client::IdsClient;
use seqsvr_proto::v1::{NextIdsRequest, PipeRequest, pipe_request, pipe_response};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_family, http_url, new_caller, new_client,
};
use seqsvr_test_support::wait::TEST_TIMEOUT;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// 2026-01-01, the epoch of the family.
const EPOCH_MS: u64 = 1_767_225_600_000;
/// Ids a tick of a worker.
const CAPACITY: u64 = 512;

/// Takes ids in this many calls, one after the other.
async fn take_in_turn(family: &FamilyHandle, calls: usize) -> Vec<u64> {
    let mut ids = Vec::new();
    for _ in 0..calls {
        ids.push(family.next().await.unwrap());
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_unique_and_rise_at_each_client() {
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1", "a2"]).await;
    let client = new_client(&allocs[..1]);
    let admin = client.admin();
    let layout = "0:1,time:41,worker:3,seq:9".parse().unwrap();
    let spec = FamilySpec::new("orders", layout, TickScale::new(EPOCH_MS, 1).unwrap());
    create_family(&admin, &spec).await;
    let short = FamilyChange {
        window_ms: Some(2_000),
        ..FamilyChange::default()
    };
    admin.alter_family("orders", short).await.unwrap();
    let family = client.family("orders").await.unwrap();

    // No other frame wakes the Pipe on which the first one waits for a worker.
    let request = |count, runs, floor| NextIdsRequest {
        family: "orders".into(),
        count: Some(count),
        runs,
        floor,
    };
    let (frames, mut out) = mpsc::channel(1);
    let out = futures::stream::poll_fn(move |cx| out.poll_recv(cx));
    let mut caller = new_caller(&allocs[0]).await;
    let mut answers = caller.pipe(out).await.unwrap().into_inner();
    let first = PipeRequest {
        id: 7,
        timeout_ms: 20_000,
        operation: Some(pipe_request::Operation::Ids(request(3, false, None))),
    };
    frames.send(first).await.unwrap();
    let answer = timeout(TEST_TIMEOUT, answers.message()).await;
    let answer = answer.expect("an answer").unwrap().unwrap().answer;
    let Some(pipe_response::Answer::Ids(first)) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(first.ids.len(), 3);

    // Callers of one client are merged; those of another one are served by another AllocSvr.
    let other = new_client(&allocs[1..]).family("orders").await.unwrap();
    let callers = [&family, &other].into_iter().cycle().take(64);
    let taken = join_all(callers.map(|family| take_in_turn(family, 20))).await;
    let mut all: Vec<u64> = taken.concat();
    all.extend(first.ids);
    // More than a tick and `ahead` allow at once: more workers are acquired, and the rest waits.
    let before = family.next().await.unwrap();
    let burst = family.many(600_000).await.unwrap();
    assert!(before < burst[0] && burst.is_sorted_by(|a, b| a < b));
    all.extend(&burst);
    let unique: HashSet<u64> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len(), "an id was given twice");
    let last = family.decode(*all.last().unwrap()).unwrap();
    assert!(last.time_ms > EPOCH_MS && last.parts.worker < 8, "{last:?}");

    // Runs, and what is invalid.
    let url = http_url(allocs[0].local_addr());
    let mut ids = IdsClient::connect(url).await.unwrap();
    let runs = ids.next_ids(request(100_000, true, None)).await.unwrap();
    let runs = runs.into_inner().runs;
    assert_eq!(runs.iter().map(|run| run.count).sum::<u32>(), 100_000);
    for run in &runs {
        let apart = (run.first / CAPACITY).abs_diff(last.parts.tick);
        assert!(apart < 60_000 && run.epoch > 0, "{run:?}");
    }
    let far = (3_600_000 * 24 + last.parts.tick) << 12;
    let misplaced = *all.last().unwrap() | 1 << 63;
    for (count, runs, floor, reason) in [
        (0, false, None, Reason::LimitExceeded),
        (100_001, false, None, Reason::LimitExceeded),
        (1_000_001, true, None, Reason::LimitExceeded),
        (1, false, Some(far), Reason::TooFarAhead),
        (1, false, Some(misplaced), Reason::NotAnId),
    ] {
        let status = ids.next_ids(request(count, runs, floor)).await.unwrap_err();
        let fault = RpcError::from_status(&status);
        assert_eq!(fault.reason(), reason, "{count} {runs} {floor:?}: {fault}");
    }
    let unknown = client.family("other").await.err().unwrap();
    assert_eq!(unknown.reason(), Reason::FamilyNotFound, "{unknown}");

    // A frozen family grants nothing: what is granted is used up, then callers get the reason.
    let frozen = FamilyChange {
        frozen: Some(true),
        ..FamilyChange::default()
    };
    admin.alter_family("orders", frozen).await.unwrap();
    timeout(Duration::from_secs(15), async {
        while family.next().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await
    .expect("grants end");
    let refused = family.next().await.unwrap_err();
    assert_eq!(refused.reason(), Reason::Rejected, "{refused}");
    assert!(refused.to_string().contains("frozen"), "{refused}");
    let thaw = FamilyChange {
        frozen: Some(false),
        ..FamilyChange::default()
    };
    admin.alter_family("orders", thaw).await.unwrap();
    take_in_turn(&family, 5).await;

    // An AllocSvr that stops hands its workers back.
    let (stopped, left) = allocs.split_at(1);
    stopped[0].shutdown().await;
    let admin = new_client(left).admin();
    let workers = admin.list_workers("orders", WorkerId(0)).await.unwrap();
    let held: Vec<_> = workers.workers.iter().filter(|w| w.held).collect();
    assert!(held.iter().all(|w| w.holder == "alloc/a2"), "{held:?}");
    cluster.stop(left).await;
}
