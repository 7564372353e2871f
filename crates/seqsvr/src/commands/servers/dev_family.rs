//! The family `snowflake`, which every `dev` has.

use std::time::Duration;

use seqsvr_client::{Client, ErrorKind, FamilyLimits, FamilySpec};
use seqsvr_core::state::FORMAT_LEVEL_MAX;
use seqsvr_ids::presets::find_preset;
use seqsvr_store::StoreServer;
use tokio::time::{sleep, timeout};

const NAME: &str = "snowflake";
/// Maximum time until it is there. Afterwards `dev` continues without the family.
const FAMILY_TIMEOUT: Duration = Duration::from_secs(5);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Makes the family if there is none, with the default limits.
pub(super) async fn prepare(client: &Client, stores: &[StoreServer]) {
    // A call before would be rejected, and logged as a change.
    let has_level = || stores.iter().any(|s| s.format_level() >= FORMAT_LEVEL_MAX);
    let making = async {
        while !has_level() || find_or_make(client).await.is_err() {
            sleep(CHECK_INTERVAL).await;
        }
    };
    if timeout(FAMILY_TIMEOUT, making).await.is_err() {
        tracing::warn!(
            family = NAME,
            "the family is not made in time; run `seqsvr id create snowflake`, which names the cause"
        );
    }
}

async fn find_or_make(client: &Client) -> anyhow::Result<()> {
    match client.family(NAME).await {
        Err(missing) if missing.kind() == ErrorKind::FamilyNotFound => {}
        found => return Ok(found.map(drop)?),
    }
    let scheme = find_preset(NAME)?.scheme(None)?;
    let spec = FamilySpec::new(NAME, scheme.layout().clone(), scheme.scale());
    let admin = client.admin();
    admin.create_family(&spec, FamilyLimits::DEFAULT).await?;
    // The AllocSvrs have it soon.
    Ok(client.family(NAME).await.map(drop)?)
}
