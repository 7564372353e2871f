//! A run as data: who there is, what befalls them, what callers do. A seed is only where a plan
//! came from.

mod draw;

pub use draw::{Class, Draw};

use serde::{Deserialize, Serialize};

use crate::clock::Rates;
use crate::net::NetConduct;

/// A run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// What all chance of the run is drawn from.
    pub seed: u64,
    /// Bugs that are planted.
    #[serde(default)]
    pub planted: Vec<String>,
    /// Servers and their options.
    pub setup: Setup,
    /// Rates of the clocks of stores, then of AllocSvrs.
    pub rates: Vec<Rates>,
    /// Whether clocks keep to the bounds of the design. If not, only what needs no clock is judged.
    pub has_bounded_clocks: bool,
    /// What befalls the servers, by time.
    pub faults: Vec<Fault>,
    /// What callers do.
    pub load: Load,
    /// Milliseconds after the begin of the load at which all faults end.
    pub heal_at_ms: u64,
    /// Whether times count from the first start of the stores, before the cluster is made.
    #[serde(default)]
    pub hits_genesis: bool,
    /// Whether the session of a dead AllocSvr must end within a bound, also while faults last.
    #[serde(default)]
    pub bounds_takeover: bool,
}

/// Servers and their options. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setup {
    /// Stores, all of them voters.
    pub stores: u32,
    /// AllocSvrs.
    pub allocs: u32,
    /// Processes of callers.
    pub clients: u32,
    /// Length of a turn of all processes.
    pub tick_ms: u64,
    /// Lease D.
    pub lease_ms: u64,
    /// Slots of the cluster.
    pub slots: u32,
    /// Heartbeat of a leader; elections follow from it.
    pub heartbeat_ms: u64,
    /// Entries between two snapshots.
    pub snapshot_every: u64,
    /// Step of the namespaces.
    pub step: u32,
    /// Unused sections are closed after this.
    pub idle_after_ms: u64,
    /// Behavior of the network.
    pub net: NetConduct,
    /// Shortest and longest sync of a disk.
    pub sync_ms: (u64, u64),
    /// Bytes of an entry of the log; None: the usual bound.
    #[serde(default)]
    pub entry_bytes: Option<u64>,
}

/// Who a fault is for. Chosen when it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The store that leads.
    Leader,
    /// A store that follows.
    Follower(u32),
    /// A store.
    Store(u32),
    /// The AllocSvr that owns most slots.
    Owner,
    /// An AllocSvr.
    Alloc(u32),
}

/// From whom a partition cuts its target off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Stores.
    Stores,
    /// Stores and AllocSvrs.
    Servers,
    /// Clients.
    Clients,
    /// All machines.
    All,
}

/// Which way a partition is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Neither hears the other.
    Both,
    /// The others do not hear the target.
    Out,
    /// The target does not hear the others.
    In,
}

/// What a crash does to the rows of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowsFate {
    /// Up to so many of the last steps are lost.
    Lose(u64),
    /// All are lost.
    Remove,
    /// One is damaged.
    Damage,
}

/// Something that befalls a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The network is cut between the target and others.
    Part { way: Direction, scope: Scope },
    /// The links between the target and others are slower.
    Slow { more_ms: u64, scope: Scope },
    /// All connections of the target are reset.
    Reset,
    /// What the target sends by the connections that it has now is lost.
    Eat,
    /// The process is stopped (SIGSTOP).
    Pause,
    /// The process is stopped in the middle of a clock read, after so many others.
    PauseAtRead { reads: u64 },
    /// The process is killed.
    Kill { rows: RowsFate },
    /// The machine loses its power.
    PowerCut { rows: RowsFate },
    /// All servers lose their power.
    PowerCutAll,
    /// The machine is suspended.
    Suspend,
    /// The clocks change their rates.
    Rate(Rates),
    /// The monotonic clocks jump ahead, which is beyond all bounds.
    Jump { by_ms: u64 },
    /// Syncs of the disk take so long.
    SlowSync { ms: u64 },
    /// Syncs of the disk fail. The store ends, and is started again at the end of the fault.
    FailSync,
    /// The AllocSvr is shut down in order and started again.
    Leave,
    /// A slot is moved to another AllocSvr.
    Move { slot: u32 },
    /// The AllocSvr is drained, and filled again at the end.
    Drain,
    /// Leadership is handed over.
    Transfer,
    /// Another AllocSvr joins, and is shut down in order at the end.
    Join,
    /// A new store joins the group, and the target leaves it.
    Replace,
    /// The store loses its disk and starts with an empty one.
    Wipe,
    /// The store is cut off and removed, and the operator gives its id to a new store, which must
    /// be refused.
    ReuseId,
    /// A second process starts on a copy of the store's directory, which must be refused.
    Copy,
    /// All stores lose their disks, and another cluster is made of them. So many AllocSvrs live on.
    Remake { kept: u32 },
}

/// A fault in a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Milliseconds after the begin of the load.
    pub at_ms: u64,
    /// How long it lasts, ms.
    pub for_ms: u64,
    /// Who is hit.
    pub target: Target,
    /// By what.
    pub what: What,
}

/// What callers do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Callers of the first client, which is busy.
    pub busy_callers: u32,
    /// Longest pause between two calls of them, ms.
    pub busy_think_ms: u64,
    /// Longest pauses between two calls of the callers of the other clients, ms.
    pub slow_think_ms: Vec<u64>,
    /// Sequences that are called.
    pub keys: u64,
    /// Of a hundred calls: batches, `current`, RaiseTo, strict `next`.
    pub many_percent: u64,
    /// See `many_percent`.
    pub current_percent: u64,
    /// See `many_percent`.
    pub raise_percent: u64,
    /// See `many_percent`.
    pub strict_percent: u64,
}
