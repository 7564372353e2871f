//! Commands of families, workers and store time.

use serde::{Deserialize, Serialize};

use super::{FamilyChange, FamilyLimits, FamilySpec};
use crate::ids::{FamilyId, Nonce, WorkerEpoch, WorkerId, WorkerKey};

/// A change of families, workers or store time. Each is idempotent or fenced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum IdsCommand {
    /// Creates a family; the same spec and limits again get the same id.
    CreateFamily {
        /// Settings that never change.
        spec: FamilySpec,
        /// First limits.
        limits: FamilyLimits,
    },
    /// Changes the given limits; the others keep the value they have when the command applies.
    AlterFamily {
        /// Family to alter.
        id: FamilyId,
        /// Limits to change.
        change: FamilyChange,
    },
    /// Raises the floor of a family: no later grant begins below it.
    RaiseFamily {
        /// Family to raise.
        id: FamilyId,
        /// First tick that may be granted. A lower floor than the present one changes nothing.
        floor: u64,
        /// Skips the bound, `ahead` in front of store time; admin role.
        force: bool,
    },
    /// Grants a worker to a holder. The same nonce gets the same grant.
    AcquireWorker(AcquireWorker),
    /// Extends a grant in front of store time. Absolute, so a retry is harmless.
    RenewWorker {
        /// The worker.
        worker: WorkerKey,
        /// Fence: the sender holds the worker at this epoch.
        epoch: WorkerEpoch,
        /// Window in milliseconds; 0: that of the family.
        window_ms: u32,
        /// Proof: that of its acquisition.
        nonce: Nonce,
    },
    /// Hands a worker back. Its sender makes no more ids in that epoch, with any reply.
    ReleaseWorker {
        /// The worker.
        worker: WorkerKey,
        /// Fence: the sender holds the worker at this epoch.
        epoch: WorkerEpoch,
        /// First tick of which no id was made.
        used: u64,
        /// Proof: that of its acquisition.
        nonce: Nonce,
    },
    /// Takes a worker from its holder, which may use up its grant. Admin role.
    RevokeWorker {
        /// The worker.
        worker: WorkerKey,
        /// The epoch that the sender saw.
        epoch: WorkerEpoch,
    },
    /// Moves store time forward, never back.
    AdvanceTime {
        /// Unix time in milliseconds.
        now_ms: u64,
        /// Fence: the number of set-backs that the sender saw. Another number: no effect.
        resets: u64,
    },
    /// Sets store time, also back: the only way back. Admin role.
    SetTime {
        /// Unix time in milliseconds.
        now_ms: u64,
        /// Fence: the number of set-backs that the sender saw.
        resets: u64,
    },
}

/// A holder's request for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcquireWorker {
    /// Family of the worker.
    pub family: FamilyId,
    /// Name of the holder, 1 to 128 printable ASCII characters.
    pub holder: String,
    /// Random number of each attempt to acquire.
    pub nonce: Nonce,
    /// The number that the holder claims; None: any.
    pub worker: Option<WorkerId>,
    /// Window in milliseconds; 0: that of the family.
    pub window_ms: u32,
}

/// Ticks [from, until) of one lane of a worker, which no other holder ever gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerGrant {
    /// The worker.
    pub worker: WorkerKey,
    /// Epoch of its holder. The grant widens only a generator of this epoch.
    pub epoch: WorkerEpoch,
    /// The lane.
    pub lane: u32,
    /// First tick granted in this epoch.
    pub from: u64,
    /// First tick not granted.
    pub until: u64,
    /// Store time at the grant, as Unix time in milliseconds.
    pub high_ms: u64,
}
