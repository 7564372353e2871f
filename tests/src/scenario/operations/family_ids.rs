//! Ids of a family before and after an operation.

use std::time::Duration;

use seqsvr_client::{Client, FamilySpec};
use seqsvr_core::layout::TickScale;
use seqsvr_test_support::wait::wait_until;

/// Longest time until ids are made: a restored family waits for the time of `--ids-from`.
const IDS_TIMEOUT: Duration = Duration::from_secs(60);
const IDS: u32 = 10_000;
const NAME: &str = "orders";
/// 2026-01-01.
const EPOCH_MS: u64 = 1_767_225_600_000;

/// Returns the family of [`take_rising`].
pub(super) fn orders() -> FamilySpec {
    let layout = "0:1,time:41,worker:10,seq:12".parse().expect("a layout");
    let scale = TickScale::new(EPOCH_MS, 1).expect("a scale");
    FamilySpec::new(NAME, layout, scale)
}

/// Takes ids, and panics unless each is greater than `greatest`, which it raises.
pub(super) async fn take_rising(client: &Client, greatest: &mut u64) {
    let ids = wait_until("ids of a family", IDS_TIMEOUT, async || {
        client.family(NAME).await.ok()?.many(IDS).await.ok()
    })
    .await;
    assert_eq!(ids.len(), IDS as usize);
    for id in ids {
        assert!(id > *greatest, "{id} after {greatest}");
        *greatest = id;
    }
}
