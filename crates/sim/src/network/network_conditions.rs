//! Conditions of the network that a plan chooses.

/// Number of a machine.
pub type MachineId = u32;

/// Behavior of the network in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NetworkConditions {
    /// Minimum delay of a segment, ms; at least 1.
    pub delay_min_ms: u64,
    /// Maximum delay of a segment that is not slow, ms.
    pub delay_max_ms: u64,
    /// Share of segments that take ten times as long, per mille.
    pub slow_per_mille: u64,
    /// Maximum unread bytes of a direction. Above it, a writer waits.
    pub window: usize,
    /// Share of reads that return less than there is, per mille.
    pub short_read_per_mille: u64,
}
