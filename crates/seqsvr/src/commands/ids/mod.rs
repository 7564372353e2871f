//! The commands about ids that carry the time.

pub(super) mod decode;
mod decoded_id;
pub(super) mod new;
pub(super) mod opaque;
pub(super) mod stats;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "ids carry the wall time")]
fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
