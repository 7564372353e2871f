//! Machine and its process.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use seqsvr_alloc::AllocServer;
use seqsvr_store::StoreServer;

use super::machine_clock::MachineClock;
use super::sim_process::SimProcess;
use crate::network::MachineId;

/// Returns the task of a holder whose process starts on a machine with these clocks.
pub type HolderStart = Arc<dyn Fn(MachineClock) -> BoxFuture<'static, ()> + Send + Sync>;

/// Kind of server or client on a machine.
#[derive(Clone)]
pub enum MachineRole {
    /// Store; its handle is set once it has started.
    Store(Arc<Mutex<Option<StoreServer>>>),
    /// AllocSvr; its handle is set once it has started.
    Alloc(Arc<Mutex<Option<AllocServer>>>),
    /// Client with its callers.
    Client,
    /// Process that holds a worker.
    Holder(HolderStart),
}

/// Machine and its process.
pub struct SimMachine {
    /// Number of the machine.
    pub id: MachineId,
    /// Kind of its process.
    pub role: MachineRole,
    /// Clocks of the machine.
    pub clock: MachineClock,
    /// Process; None: it does not run.
    pub process: Option<SimProcess>,
    /// Error with which its server did not start.
    pub start_error: Arc<Mutex<Option<String>>>,
    /// Whether the machine is in use now.
    pub is_in_use: bool,
    /// Whether the machine was ever in use.
    pub(crate) was_used: bool,
    /// Whether its store has lost its disk since it joined.
    pub is_wiped: bool,
    /// Whether a fault explains that its server ends by itself.
    pub may_end_by_itself: bool,
    /// Whether its server has left the cluster.
    pub is_removed: bool,
    /// Id of its store in the cluster.
    pub(crate) store_id: u64,
    /// Number of boots of the machine.
    pub(crate) boot_count: u64,
    pub(crate) root_dir: PathBuf,
}

impl SimMachine {
    /// Returns the data directory of its store.
    pub fn data_dir(&self) -> PathBuf {
        self.root_dir.join("data")
    }

    /// Returns the directory of the session proof of its AllocSvr.
    pub(crate) fn state_dir(&self) -> PathBuf {
        self.root_dir.join("state")
    }

    /// Returns its store, if that runs.
    pub fn running_store(&self) -> Option<StoreServer> {
        match &self.role {
            MachineRole::Store(running) if self.process.is_some() => running.lock().clone(),
            _ => None,
        }
    }

    /// Returns its AllocSvr, if that runs.
    pub fn running_alloc(&self) -> Option<AllocServer> {
        match &self.role {
            MachineRole::Alloc(running) if self.process.is_some() => running.lock().clone(),
            _ => None,
        }
    }

    pub(crate) fn drop_handle(&self) {
        match &self.role {
            MachineRole::Store(running) => drop(running.lock().take()),
            MachineRole::Alloc(running) => drop(running.lock().take()),
            MachineRole::Client | MachineRole::Holder(_) => {}
        }
    }
}
