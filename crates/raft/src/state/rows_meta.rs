//! Values stored beside the rows.

use serde::{Deserialize, Serialize};

use crate::state::digest::RowsDigest;
use crate::types::{LogId, StoredMembership};

/// Values stored with the rows.
#[derive(Serialize, Deserialize)]
pub(crate) struct RowsMeta {
    pub(crate) last_applied: Option<LogId>,
    pub(crate) membership: StoredMembership,
    pub(crate) digest: RowsDigest,
}
