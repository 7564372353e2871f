//! Worker calls of holders, through an AllocSvr.
//!
//! Fault: the leader changes while a worker is acquired.

use seqsvr_client::{FamilySpec, WorkerId};
use seqsvr_core::layout::TickScale;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::v1::ids_client::IdsClient;
use seqsvr_proto::v1::worker_command::Command;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{
    AcquireWorkerRequest, Reason, ReleaseWorkerRequest, RenewWorkersRequest, Renewal,
    WorkerCommand, WorkerGrant, WorkersRequest,
};
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_family, expect_rejection, http_url, new_client,
};
use tonic::transport::Channel;
use tonic::{Request, Status};

/// 2026-01-01, the epoch of the family.
const EPOCH_MS: u64 = 1_767_225_600_000;
/// Window of each grant: no worker is given away while the test runs, and ticks are milliseconds.
const WINDOW_MS: u32 = 60_000;

fn acquisition(nonce: Vec<u8>, worker: Option<u32>) -> AcquireWorkerRequest {
    AcquireWorkerRequest {
        family: "orders".into(),
        holder: "pod-3".into(),
        nonce: nonce.into(),
        worker,
        window_ms: WINDOW_MS,
    }
}

fn to_worker_command(command: Command) -> WorkerCommand {
    WorkerCommand {
        command: Some(command),
    }
}

async fn acquire(
    mut ids: IdsClient<Channel>,
    nonce: u8,
    worker: Option<u32>,
) -> Result<WorkerGrant, Status> {
    let request = acquisition(vec![nonce; 16], worker);
    Ok(ids.acquire_worker(request).await?.into_inner())
}

fn renewal(grant: &WorkerGrant, nonce: u8) -> Renewal {
    Renewal {
        family: "orders".into(),
        worker: grant.worker,
        epoch: grant.epoch,
        window_ms: WINDOW_MS,
        nonce: vec![nonce; 16].into(),
    }
}

/// Returns what identifies a grant: all but how far it reaches now.
fn identity(grant: &WorkerGrant) -> (u32, u64, u32, u64) {
    (grant.worker, grant.epoch, grant.lane, grant.from)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_acquired_renewed_and_released() {
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let admin = new_client(&allocs).admin();
    let layout = "0:1,time:41,worker:10,seq:12".parse().unwrap();
    let spec = FamilySpec::new("orders", layout, TickScale::new(EPOCH_MS, 1).unwrap());
    create_family(&admin, &spec).await;
    let url = http_url(allocs[0].local_addr());
    let mut ids = IdsClient::connect(url).await.unwrap();

    // Two workers, of which one is acquired twice with one nonce.
    let one = acquire(ids.clone(), 1, None).await.unwrap();
    let two = acquire(ids.clone(), 2, None).await.unwrap();
    assert_ne!(one.worker, two.worker);
    assert_eq!(one.from, one.store_time_ms - EPOCH_MS);
    assert_eq!(one.until, one.from + u64::from(WINDOW_MS));
    let family = one.family.as_ref().unwrap();
    let window_ms = family.limits.as_ref().and_then(|limits| limits.window_ms);
    assert_eq!((family.name.as_str(), window_ms), ("orders", Some(10_000)));
    let again = acquire(ids.clone(), 1, None).await.unwrap();
    assert_eq!(identity(&again), identity(&one));

    // Each renewal is answered by itself.
    let stale = Renewal {
        epoch: one.epoch + 1,
        ..renewal(&one, 1)
    };
    let unknown = Renewal {
        family: "other".into(),
        ..renewal(&one, 1)
    };
    let malformed = Renewal {
        family: "x".repeat(65),
        ..renewal(&one, 1)
    };
    let of_another = renewal(&one, 2);
    let renewals = vec![
        renewal(&one, 1),
        stale,
        renewal(&two, 2),
        unknown,
        malformed,
        of_another,
    ];
    let request = RenewWorkersRequest { renewals };
    let renewed = ids.renew_workers(request).await.unwrap().into_inner();
    let outcomes: Vec<_> = renewed.results.into_iter().map(|r| r.result).collect();
    let [
        Some(Outcome::Grant(renewed)),
        Some(Outcome::Error(stale)),
        Some(Outcome::Grant(second)),
        Some(Outcome::Error(unknown)),
        Some(Outcome::Error(malformed)),
        Some(Outcome::Error(of_another)),
    ] = &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    for (renewed, before) in [(renewed, &one), (second, &two)] {
        assert_eq!(identity(renewed), identity(before));
        assert_eq!(
            renewed.until,
            renewed.store_time_ms - EPOCH_MS + u64::from(WINDOW_MS)
        );
    }
    let reasons =
        [stale, unknown, malformed, of_another].map(|error| (error.index, error.reason()));
    let expected = [
        (1, Reason::StaleWorker),
        (3, Reason::FamilyNotFound),
        (4, Reason::Invalid),
        (5, Reason::StaleWorker),
    ];
    assert_eq!(reasons, expected);
    let many = vec![renewal(&one, 1); 1_001];
    let too_many = ids.renew_workers(RenewWorkersRequest { renewals: many });
    assert_eq!(expect_rejection(too_many.await).1, Reason::LimitExceeded);
    let mut stray = Request::new(AcquireWorkerRequest::default());
    ClusterTag(1).write_metadata(stray.metadata_mut());
    let stray = ids.acquire_worker(stray).await;
    assert_eq!(expect_rejection(stray).1, Reason::ClusterMismatch);

    // A released worker continues at the first tick that was not used, at a later epoch.
    let used = renewed.store_time_ms - EPOCH_MS + 500;
    let release = ReleaseWorkerRequest {
        family: "orders".into(),
        worker: one.worker,
        epoch: one.epoch,
        used,
        nonce: vec![1; 16].into(),
    };
    let of_another = ReleaseWorkerRequest {
        used: one.from,
        nonce: vec![2; 16].into(),
        ..release.clone()
    };
    let forged = ids.release_worker(of_another).await;
    assert_eq!(expect_rejection(forged).1, Reason::StaleWorker);
    ids.release_worker(release).await.unwrap();
    let renewals = vec![renewal(&one, 1)];
    let request = RenewWorkersRequest { renewals };
    let renewed = ids.renew_workers(request).await.unwrap().into_inner();
    let Some(Outcome::Error(stale)) = &renewed.results[0].result else {
        panic!("{renewed:?}")
    };
    assert_eq!(stale.reason(), Reason::StaleWorker, "{stale:?}");
    let next = acquire(ids.clone(), 3, Some(one.worker)).await.unwrap();
    assert_eq!(next.worker, one.worker);
    assert!(next.from >= used && next.epoch > one.epoch, "{next:?}");

    // A store rejects what is malformed alone, too.
    let commands = vec![
        Command::Acquire(acquisition(vec![5; 15], None)),
        Command::Renew(renewal(&next, 3)),
    ];
    let mut store = cluster.store_client(cluster.leader().await).await;
    let request = WorkersRequest {
        commands: commands.into_iter().map(to_worker_command).collect(),
        ..WorkersRequest::default()
    };
    let answer = store.workers(request).await.unwrap().into_inner();
    let outcomes: Vec<_> = answer.results.into_iter().map(|r| r.result).collect();
    let [
        Some(Outcome::Error(malformed)),
        Some(Outcome::Grant(renewed)),
    ] = &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!(malformed.reason(), Reason::Invalid, "{malformed:?}");
    assert_eq!(identity(renewed), identity(&next));

    // What no holder sends takes no entry of the log.
    let leader = cluster.leader().await;
    let proposed = async || cluster.store_counters(leader).await["proposer_commands"];
    let before = proposed().await;
    let invented = (0..1_000).map(|n| Renewal {
        epoch: next.epoch + 1 + n,
        ..renewal(&next, 3)
    });
    let renewals = invented.collect();
    let answer = ids.renew_workers(RenewWorkersRequest { renewals }).await;
    let results = answer.unwrap().into_inner().results;
    let is_stale = |result: &Option<Outcome>| match result {
        Some(Outcome::Error(error)) => error.reason() == Reason::StaleWorker,
        _ => false,
    };
    assert_eq!(
        results.iter().filter(|r| is_stale(&r.result)).count(),
        1_000
    );
    assert!(proposed().await - before < 500);

    // Without force, store time is not set below the grants of a family without lanes.
    let hour_ago = next.store_time_ms - 3_600_000;
    let error = admin.set_clock(hour_ago, false).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Rejected);
    assert!(error.to_string().contains("orders for 36"), "{error}");

    // The leader changes while workers are acquired.
    let acquiring = async {
        for nonce in 10..20 {
            let acquired = acquire(ids.clone(), nonce, None).await.unwrap();
            let again = acquire(ids.clone(), nonce, None).await.unwrap();
            assert_eq!(identity(&again), identity(&acquired));
        }
    };
    let (moved, ()) = tokio::join!(admin.transfer_leader(None), acquiring);
    moved.unwrap();
    let again = acquire(ids.clone(), 3, None).await.unwrap();
    assert_eq!(identity(&again), identity(&next));
    let listed = admin.list_workers("orders", WorkerId(0)).await.unwrap();
    let held = listed.workers.iter().filter(|worker| worker.held);
    assert_eq!(held.count(), 12, "{listed:?}");
    cluster.stop(&allocs).await;
}
