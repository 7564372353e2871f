//! Ids that processes make themselves, with workers that the cluster grants.
//!
//! Faults: a worker is revoked, all workers are held, a process forks, the stores stop.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join;
use seqsvr_client::{
    Admin, FamilyChange, FamilyHandle, FamilySpec, LocalIds, LocalOptions, Reason, WorkerId,
};
use seqsvr_core::layout::TickScale;
use seqsvr_proto::v1::WorkerStatus;
use seqsvr_test_support::in_process::{
    InProcessCluster, LEASE, create_family, new_client, run_in_forked_child,
};
use tokio::time::timeout;

/// 2026-01-01, the epoch of the families.
const EPOCH_MS: u64 = 1_767_225_600_000;
/// Bound of what happens within a window.
const WAIT_MAX: Duration = Duration::from_secs(15);

/// Creates a family with this window, and returns its handle.
async fn create(
    admin: &Admin,
    client: &seqsvr_client::Client,
    (name, layout): (&str, &str),
    window_ms: u32,
) -> FamilyHandle {
    let scale = TickScale::new(EPOCH_MS, 1).unwrap();
    create_family(
        admin,
        &FamilySpec::new(name, layout.parse().unwrap(), scale),
    )
    .await;
    let window = FamilyChange {
        window_ms: Some(window_ms),
        ..FamilyChange::default()
    };
    admin.alter_family(name, window).await.unwrap();
    client.family(name).await.unwrap()
}

/// Takes ids one by one, and some by slices.
async fn take(local: &LocalIds) -> Vec<u64> {
    let mut ids = Vec::new();
    for _ in 0..200 {
        for _ in 0..20 {
            ids.push(local.next_waiting().await.unwrap());
        }
        let mut part = [0; 300];
        if local.fill(&mut part).is_ok() {
            ids.extend(part);
        }
        tokio::task::yield_now().await;
    }
    assert!(ids.is_sorted_by(|a, b| a < b), "ids of a holder rise");
    ids
}

async fn worker_status(admin: &Admin, worker: u32) -> WorkerStatus {
    let listed = admin
        .list_workers("orders", WorkerId(worker))
        .await
        .unwrap();
    listed.workers.into_iter().next().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_ids_are_unique_and_outlive_workers_and_stores() {
    let mut cluster = InProcessCluster::start(1, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let client = new_client(&allocs);
    let admin = client.admin();
    let layout = ("orders", "0:1,time:41,worker:3,seq:12");
    let orders = create(&admin, &client, layout, 2_000).await;

    // Two holders, and an AllocSvr.
    let named = LocalOptions::default().with_ticker().with_name("pod-3");
    let mine = orders.local(LocalOptions::default()).await.unwrap();
    let other = orders.local(named).await.unwrap();
    let served = async { orders.many(50_000).await.unwrap() };
    let (taken, served) = join(join(take(&mine), take(&other)), served).await;
    let all = [taken.0, taken.1, served].concat();
    let unique: HashSet<u64> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len(), "an id was made twice");

    // A worker that is handed back is free from the first tick on that was not used.
    let mut burst = vec![0; 200_000];
    other.fill(&mut burst).unwrap();
    other.close().await;
    let refused = other.next().unwrap_err();
    assert!(refused.to_string().contains("closed"), "{refused}");
    let last = orders.decode(burst[199_999]).unwrap().parts;
    let free = worker_status(&admin, last.worker).await;
    let expected = (false, "pod-3", last.tick + 1);
    assert_eq!((free.held, &*free.holder, free.until), expected);
    let again = LocalOptions::default().with_worker(WorkerId(last.worker));
    let again = orders.local(again).await.unwrap();
    let first = again.next().unwrap();
    let granted = worker_status(&admin, last.worker).await;
    assert!(granted.held && granted.from >= free.until, "{granted:?}");
    assert!(first > burst[199_999] && orders.decode(first).unwrap().parts.tick >= free.until);
    again.close().await;

    // A revoked worker is replaced: callers notice nothing.
    let mut before = mine.next().unwrap();
    let revoked = orders.decode(before).unwrap().parts.worker;
    let until_ms = admin.revoke_worker("orders", WorkerId(revoked)).await;
    assert!(until_ms.unwrap() > EPOCH_MS);
    let replaced = async {
        while orders.decode(before).unwrap().parts.worker == revoked {
            let id = mine.next().unwrap();
            assert!(id > before, "{id} after {before}");
            before = id;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(WAIT_MAX, replaced)
        .await
        .expect("a worker is replaced");

    // The AllocSvr was short of ids once, before its first worker: it took no further ones since.
    let listed = admin.list_workers("orders", WorkerId(0)).await.unwrap();
    let held: Vec<_> = listed.workers.iter().filter(|w| w.held).collect();
    assert!(held.len() <= 3, "{held:?}");

    // All workers are held.
    // Their grants are longer than the attempt to get one.
    let layout = ("pair", "0:1,time:41,worker:1,seq:12");
    let pair = create(&admin, &client, layout, 10_000).await;
    let two = LocalOptions::default().with_workers(2..=2);
    let too_many = two.with_worker(WorkerId(0));
    let rejected = pair.local(too_many).await.err().unwrap();
    assert_eq!(rejected.reason(), Reason::Invalid, "{rejected}");
    let one = pair.local(LocalOptions::default()).await.unwrap();
    let _two = pair.local(LocalOptions::default()).await.unwrap();
    let hurried = client.with_deadline(Duration::from_secs(2));
    let hurried = hurried.family("pair").await.unwrap();
    let none = hurried.local(LocalOptions::default()).await.err().unwrap();
    assert_eq!(none.reason(), Reason::NoWorker, "{none}");
    assert!(none.retry_after().is_some(), "{none}");
    // The last clone hands its worker back.
    let last_one = one.next().unwrap();
    drop(one.clone());
    assert!(one.next().unwrap() > last_one);
    drop(one);
    pair.local(LocalOptions::default()).await.unwrap();

    // A forked child makes no id; its parent continues.
    let copy = mine.clone();
    let owner = format!("belongs to process {}", std::process::id());
    let code = run_in_forked_child(move || {
        let refused = copy.next().err().map(|error| error.to_string());
        drop(copy);
        u8::from(refused.is_some_and(|text| text.contains(&owner)))
    });
    assert_eq!(code, 1, "the child made an id, or another error");
    assert!(mine.next().unwrap() > before);

    // Without stores ids are made until the grant ends; then callers get the reason.
    cluster.stop_stores().await;
    let without = hurried.local(LocalOptions::default());
    let mut count = 0;
    let ended = async {
        loop {
            match mine.next() {
                Ok(_) => count += 1,
                Err(error) if error.to_string().contains("got none for") => return error,
                Err(_) => {}
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let (without, error) = join(without, timeout(WAIT_MAX, ended)).await;
    let without = without.err().unwrap();
    assert_eq!(without.reason(), Reason::Unreachable, "{without}");
    assert!(without.to_string().contains("has no grant"), "{without}");
    let error = error.expect("a grant ends");
    assert!(count > 100, "{count} ids without stores");
    assert_eq!(error.reason(), Reason::Unreachable, "{error}");
    assert!(error.is_retryable(), "{error}");
    // Without stores an AllocSvr that stops would wait for them.
}
