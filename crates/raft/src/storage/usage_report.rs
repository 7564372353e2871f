//! How fast the numbers of a store were used, for people.

use seqsvr_core::ids::NamespaceId;
use serde::{Deserialize, Serialize};

/// Usage that the store measured before it made a backup: information for people, no part of any
/// protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageReport {
    /// Wall-clock time of the backup, seconds since 1970.
    pub taken_at: u64,
    /// Seconds for which the store had counted: since its process started or last installed a
    /// snapshot of another store.
    pub watched_secs: u64,
    /// Numbers that the Opens and Raises applied in that time added, by namespace.
    pub added: Vec<(NamespaceId, u64)>,
    /// Numbers that were added in the busiest minute since the process started, by namespace; empty
    /// if unknown.
    #[serde(skip)]
    pub busiest_minute: Vec<(NamespaceId, u64)>,
}
