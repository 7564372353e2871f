//! Operators' calls about families of ids and store time, through an AllocSvr.

use std::time::Duration;

use seqsvr_client::{
    ErrorKind, FamilyChange, FamilyLimits, FamilySpec, Reason, TickStart, WorkerId,
};
use seqsvr_core::layout::TickScale;
use seqsvr_test_support::in_process::{InProcessCluster, LEASE, create_family, new_client};
use seqsvr_test_support::wait::wait_until;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);
/// 2026-01-01, the epoch of the family.
const EPOCH_MS: u64 = 1_767_225_600_000;
/// How far clocks of one machine and the delays of a loaded one are apart at most.
const SLACK_MS: u64 = 10_000;

#[expect(
    clippy::disallowed_methods,
    reason = "store time follows the wall clock"
)]
fn wall_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_millis() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn families_are_made_listed_altered_and_raised() {
    let cluster = InProcessCluster::start(3, LEASE).await;
    let allocs = cluster.start_allocs(["a1"]).await;
    let client = new_client(&allocs);
    let admin = client.admin();
    let layout = "0:1,time:41,worker:10,seq:12".parse().unwrap();
    let spec = FamilySpec::new("orders", layout, TickScale::new(EPOCH_MS, 1).unwrap());
    let limits = FamilyLimits::DEFAULT;

    let made = create_family(&admin, &spec).await;
    assert_eq!((made.spec.clone(), made.limits), (spec.clone(), limits));
    let again = admin.create_family(&spec, limits).await.unwrap();
    assert_eq!(again.id, made.id);
    let other = FamilyLimits {
        window_ms: 20_000,
        ..limits
    };
    let taken = admin.create_family(&spec, other).await.unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::Rejected, "{taken}");

    let change = FamilyChange {
        sequence_start: Some(TickStart::Random { below: 100 }),
        frozen: Some(true),
        ..FamilyChange::default()
    };
    let altered = admin.alter_family("orders", change).await.unwrap();
    assert_eq!(altered.limits, change.apply_to(&limits));
    assert!(altered.version > made.version);
    let unknown = admin.alter_family("other", change).await.unwrap_err();
    assert_eq!(unknown.reason(), Reason::FamilyNotFound);
    assert!(
        unknown.to_string().contains("there are orders"),
        "{unknown}"
    );
    let table = wait_until("a table with the family", TEST_TIMEOUT, async || {
        let table = client.routes().await.ok()?;
        table.family("orders").cloned()
    });
    assert_eq!(table.await, altered);

    // Store time follows the clock of this machine.
    let clock = wait_until("store time", TEST_TIMEOUT, async || {
        let clock = admin.ids_status().await.unwrap();
        (clock.grants && clock.clocks.len() == 3).then_some(clock)
    })
    .await;
    assert!(
        clock.store_time_ms.abs_diff(wall_ms()) < SLACK_MS,
        "{clock:?}"
    );
    assert!(!clock.suspect && clock.resets == 0, "{clock:?}");

    // A floor within `ahead` of it needs no force; it never falls.
    let now = clock.store_time_ms - EPOCH_MS;
    assert_eq!(admin.raise_family("orders", now, false).await.unwrap(), now);
    assert_eq!(admin.raise_family("orders", 5, false).await.unwrap(), now);
    let far = now + 86_400_000;
    let error = admin.raise_family("orders", far, false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RaiseAboveLimit, "{error}");
    assert_eq!(admin.raise_family("orders", far, true).await.unwrap(), far);
    // One from the end of the layout on would end the family.
    for end in [spec.end_tick(), u64::MAX] {
        let error = admin.raise_family("orders", end, true).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
    let listed = admin.ids_status().await.unwrap();
    let [status] = &listed.families[..] else {
        panic!("{listed:?}")
    };
    assert_eq!((status.floor, status.next_worker), (far, 0));
    assert!(listed.store_time_ms >= clock.store_time_ms - SLACK_MS);

    // No worker was granted, so no family is stopped by a set-back.
    let workers = admin.list_workers("orders", WorkerId(0)).await.unwrap();
    assert!(workers.workers.is_empty() && !workers.has_more);
    let error = admin
        .revoke_worker("orders", WorkerId(0))
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::StaleWorker, "{error}");
    let next_year = wall_ms() + 31_536_000_000;
    // No worker is granted while the clocks are that far ahead of store time.
    for far in [next_year, EPOCH_MS] {
        let error = admin.set_clock(far, false).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Rejected, "{error}");
    }
    let back = admin.set_clock(EPOCH_MS, true).await.unwrap();
    assert_eq!(back.resets, 1);
    let accepted = wait_until("the clocks", TEST_TIMEOUT, async || {
        let clock = admin.accept_clock().await.unwrap();
        clock.grants.then_some(clock)
    })
    .await;
    assert!(
        accepted.store_time_ms.abs_diff(wall_ms()) < SLACK_MS,
        "{accepted:?}"
    );
    cluster.stop(&allocs).await;
}
