//! Plan of a run as data: servers, faults, and calls. A plan is complete without the seed that it
//! was drawn from.
//!
//! Names of fields and variants are part of the format of plans on disk. The trace hashes the
//! `Debug` text of a fault, so a variant or field in it cannot change without changing each hash.

use serde::{Deserialize, Serialize};

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
}

/// Target of a fault; resolved to a machine when the fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultTarget {
    /// The store that is the leader.
    Leader,
    /// A store that is a follower.
    Follower(u32),
    /// A store.
    Store(u32),
    /// The AllocSvr that owns most slots.
    Owner,
    /// An AllocSvr.
    Alloc(u32),
}

/// Machines from which a partition separates its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionScope {
    /// Stores.
    Stores,
    /// Stores and AllocSvrs.
    Servers,
    /// Clients.
    Clients,
    /// All machines.
    All,
}

/// Direction in which a partition blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartitionDirection {
    /// Neither side receives.
    Both,
    /// The others receive nothing from the target.
    Out,
    /// The target receives nothing from the others.
    In,
}

/// Effect of a crash on the state rows of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowsCrashEffect {
    /// The last row batches are lost, at most this many.
    Lose(u64),
    /// All rows are lost.
    Remove,
    /// One row is damaged.
    Damage,
}

/// Kind of a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A partition blocks the network between the target and others.
    Part {
        way: PartitionDirection,
        scope: PartitionScope,
    },
    /// The links between the target and others are slower.
    Slow { more_ms: u64, scope: PartitionScope },
    /// All connections of the target are reset.
    Reset,
    /// The network discards what the target sends over its present connections.
    Eat,
    /// The process is stopped (SIGSTOP).
    Pause,
    /// The process is stopped in the middle of a clock read, after `reads` others.
    PauseAtRead { reads: u64 },
    /// The process is killed.
    Kill { rows: RowsCrashEffect },
    /// The machine loses its power.
    PowerCut { rows: RowsCrashEffect },
    /// All servers lose their power.
    PowerCutAll,
    /// The machine is suspended.
    Suspend,
    /// The clocks change their rates.
    Rate(Rates),
    /// The monotonic clocks jump ahead, which is beyond the bounds of the design.
    Jump { by_ms: u64 },
    /// Syncs of the disk take up to `ms`.
    SlowSync { ms: u64 },
    /// Syncs of the disk fail. The store ends, and is restarted at the end of the fault.
    FailSync,
    /// The AllocSvr is shut down gracefully and restarted.
    Leave,
    /// A slot is moved to another AllocSvr.
    Move { slot: u32 },
    /// The AllocSvr is drained; the drain is canceled at the end.
    Drain,
    /// The leadership is transferred.
    Transfer,
    /// Another AllocSvr joins, and is shut down gracefully at the end.
    Join,
    /// A new store joins the cluster, and the target leaves it.
    Replace,
    /// The store loses its disk and restarts with an empty one.
    Wipe,
    /// The store is isolated and removed, and the operator gives its id to a new store, which the
    /// cluster must reject.
    ReuseId,
    /// A second process starts on a copy of the store's directory, which the cluster must reject.
    Copy,
    /// All stores lose their disks, and another cluster is made of them. `kept` AllocSvrs keep
    /// running.
    Remake { kept: u32 },
}

/// Fault of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFault {
    /// Time after the begin of the load, ms.
    pub at_ms: u64,
    /// Duration, ms.
    pub for_ms: u64,
    /// Target.
    pub target: FaultTarget,
    /// Kind of the fault.
    #[serde(rename = "what")]
    pub kind: FaultKind,
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
    /// See `many_percent`.
    pub current_percent: u64,
    /// See `many_percent`.
    pub raise_percent: u64,
    /// See `many_percent`.
    pub strict_percent: u64,
}
