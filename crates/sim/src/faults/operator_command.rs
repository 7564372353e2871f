//! Commands to the operator of a run.

use crate::network::MachineId;

/// Command to an operator, which runs on the machine of a client.
pub enum OperatorCommand {
    /// Initialize another cluster.
    InitCluster,
    /// Replace an old store by a new one.
    ReplaceStore {
        /// Id of the old store.
        id: u64,
        /// Machine of the old store.
        old: MachineId,
        /// Machine of the new store.
        new: MachineId,
        /// Whether the old store leaves before the new one joins.
        removes_first: bool,
    },
    /// Remove a store, and add a new one with its id.
    ReuseStoreId {
        /// Id of both stores.
        id: u64,
        /// Machine of the old store.
        old: MachineId,
        /// Machine of the new store.
        new: MachineId,
    },
    /// Move a slot to an AllocSvr.
    MoveSlot(u32, String),
    /// Drain an AllocSvr, or cancel its drain.
    DrainAlloc {
        /// Name of the AllocSvr.
        name: String,
        /// Whether its drain is canceled.
        cancels: bool,
    },
    /// Transfer the leadership to another store.
    TransferLeadership,
    /// Shut an AllocSvr down gracefully.
    ShutDownAlloc(MachineId),
}
