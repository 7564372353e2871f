//! The family `snowflake`, which every `dev` has.

use std::time::Duration;

use seqsvr_client::{Client, ErrorKind, FamilyLimits, FamilySpec};
use seqsvr_core::state::FORMAT_LEVEL_MAX;
use seqsvr_ids::presets::find_preset;
use seqsvr_store::StoreServer;
use tokio::time::{Instant, sleep};

const NAME: &str = "snowflake";
/// Maximum time until the last attempt begins. Afterwards `dev` continues without the family.
const FAMILY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Makes the family if there is none, with the default limits; logs why it cannot.
pub(super) async fn prepare(client: &Client, stores: &[StoreServer]) {
    let client = client.with_deadline(CALL_TIMEOUT);
    let started = Instant::now();
    // A call before would be rejected, and logged as a change.
    let has_level = || stores.iter().any(|s| s.format_level() >= FORMAT_LEVEL_MAX);
    while !has_level() && started.elapsed() < FAMILY_TIMEOUT {
        sleep(CHECK_INTERVAL).await;
    }
    while let Err(error) = find_or_make(&client).await {
        if started.elapsed() > FAMILY_TIMEOUT {
            tracing::warn!(
                family = NAME,
                %error,
                "the family is not made; remove the cause, then run `seqsvr id create snowflake`"
            );
            return;
        }
        sleep(CHECK_INTERVAL).await;
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
