//! Faults of a plan.
//!
//! Names of fields and variants are part of the format of plans on disk. The trace hashes the
//! `Debug` text of a fault's kind, so a variant or field in it cannot change without changing each
//! hash.

use serde::{Deserialize, Serialize};

use crate::machine::Rates;

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
    /// A process that holds a worker.
    Holder(u32),
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
    /// The wall clock of the store, or of all stores, is `by_ms` away from the time and runs at
    /// another rate, in parts per million. At the end it is right again.
    Wall { by_ms: i64, rate: u64, all: bool },
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
