//! Holders of workers, which renew their grants while a workload runs.

use futures::future::{join_all, try_join_all};
use seqsvr_client::{Client, FamilyLimits, FamilySpec, LocalIds, LocalOptions};
use seqsvr_core::layout::TickScale;

use super::error::CompareError;

const HOLDERS: usize = 1_024;
const FAMILY: &str = "held";
/// 2,048 workers, and 2026-01-01.
const LAYOUT: &str = "0:1,time:41,worker:11,seq:11";
const EPOCH_MS: u64 = 1_767_225_600_000;

/// Starts 1,024 holders, each with a worker of the default window.
pub(super) async fn start_holders(client: &Client) -> Result<Vec<LocalIds>, CompareError> {
    let (layout, scale) = (LAYOUT.parse(), TickScale::new(EPOCH_MS, 1));
    let layout = layout.map_err(CompareError::failed)?;
    let spec = FamilySpec::new(FAMILY, layout, scale.map_err(CompareError::failed)?);
    let admin = client.admin();
    let created = admin.create_family(&spec, FamilyLimits::DEFAULT);
    created.await.map_err(CompareError::failed)?;
    let family = client.family(FAMILY).await.map_err(CompareError::failed)?;
    let holders = (0..HOLDERS).map(|n| {
        let name = format!("holder-{n}");
        family.local(LocalOptions::default().with_name(name))
    });
    try_join_all(holders).await.map_err(CompareError::failed)
}

/// Ends the holders.
pub(super) async fn stop_holders(holders: Vec<LocalIds>) {
    join_all(holders.iter().map(LocalIds::close)).await;
}
