//! Plan of a run as data: servers, faults, and calls. A plan is complete without the seed that it
//! was drawn from.
//!
//! Names of fields are part of the format of plans on disk.

use serde::{Deserialize, Serialize};

use super::planned_fault::PlannedFault;
use crate::machine::Rates;
use crate::network::NetworkConditions;

/// Plan of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Seed of all randomness of the run.
    pub seed: u64,
    /// Names of the planted bugs.
    #[serde(default)]
    pub planted: Vec<String>,
    /// Servers and their options.
    pub setup: ClusterSetup,
    /// Rates of the clocks of stores, then of AllocSvrs.
    pub rates: Vec<Rates>,
    /// Whether clocks stay within the bounds of the design. If not, the judges check only rules
    /// that need no clock.
    pub has_bounded_clocks: bool,
    /// Faults of the servers, by time.
    pub faults: Vec<PlannedFault>,
    /// Calls of the clients.
    pub load: CallLoad,
    /// Time after the begin of the load at which all faults end, ms.
    pub heal_at_ms: u64,
    /// Whether times of faults count from the first start of the stores, before the cluster is
    /// initialized.
    #[serde(default)]
    pub hits_genesis: bool,
    /// Whether the session of a dead AllocSvr must end within a bound also during faults.
    #[serde(default)]
    pub bounds_takeover: bool,
    /// Whether an AllocSvr that runs must have a session within a bound also during faults.
    #[serde(default)]
    pub bounds_outages: bool,
    /// Whether an AllocSvr without slots speaks for the others.
    #[serde(default)]
    pub has_rogue: bool,
    /// Whether the time in ids must be that of the world, within bounds.
    #[serde(default)]
    pub bounds_id_time: bool,
}

/// Servers and their options. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterSetup {
    /// Number of stores, all of them voters.
    pub stores: u32,
    /// Number of AllocSvrs.
    pub allocs: u32,
    /// Number of client processes.
    pub clients: u32,
    /// Length of a turn of the world.
    pub tick_ms: u64,
    /// Lease D.
    pub lease_ms: u64,
    /// Number of slots of the cluster.
    pub slots: u32,
    /// Heartbeat interval of a leader; election timeouts follow from it.
    pub heartbeat_ms: u64,
    /// Number of entries between two snapshots.
    pub snapshot_every: u64,
    /// Step of the namespace.
    pub step: u32,
    /// Time after which an AllocSvr closes an unused section.
    pub idle_after_ms: u64,
    /// Behavior of the network.
    pub net: NetworkConditions,
    /// Minimum and maximum duration of a sync of a disk.
    pub sync_ms: (u64, u64),
    /// Maximum bytes of an entry of the log; None: the default limit.
    #[serde(default)]
    pub entry_bytes: Option<u64>,
    /// Family of ids; None: there is none.
    #[serde(default)]
    pub family: Option<FamilySetup>,
    /// Number of processes that hold a worker of the family.
    #[serde(default)]
    pub holders: u32,
}

/// Family of ids. Its layout is time, worker and number within a tick, from the top down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilySetup {
    /// Length of a tick, ms.
    pub unit_ms: u64,
    /// Bits of the worker.
    pub worker_bits: u32,
    /// Bits of the number within a tick.
    pub seq_bits: u32,
    /// How far a grant reaches in front of store time, ms.
    pub window_ms: u32,
    /// How far ids may be in front of the time, ms.
    pub ahead_ms: u32,
    /// Maximum workers of one holder.
    pub workers_per_holder: u32,
}

impl FamilySetup {
    /// Returns the tick and the worker of an id.
    pub fn read_id(&self, id: u64) -> (u64, u64) {
        let above_seq = id >> self.seq_bits;
        let worker = above_seq & ((1 << self.worker_bits) - 1);
        (above_seq >> self.worker_bits, worker)
    }
}

/// Calls of the clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallLoad {
    /// Number of callers of the first client, which is busy.
    pub busy_callers: u32,
    /// Maximum pause between two calls of such a caller, ms.
    pub busy_think_ms: u64,
    /// Maximum pause between two calls of a caller, for each of the other clients, ms.
    pub slow_think_ms: Vec<u64>,
    /// Number of sequences.
    pub keys: u64,
    /// Share of calls that are batches, percent.
    pub many_percent: u64,
    /// Share of calls that are `current`, percent.
    pub current_percent: u64,
    /// Share of calls that are RaiseTo, percent.
    pub raise_percent: u64,
    /// Share of calls that are a strict `next`, percent.
    pub strict_percent: u64,
    /// Share of calls for ids of the family, percent.
    #[serde(default)]
    pub ids_percent: u64,
}
