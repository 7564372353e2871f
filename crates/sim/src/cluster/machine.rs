//! A machine and its process.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_alloc::Alloc;
use seqsvr_store::Store;

use crate::net::MachineId;
use crate::process::{MachineClock, Process};

/// What runs on a machine.
#[derive(Clone)]
pub enum Role {
    /// A store, once it has started.
    Store(Arc<Mutex<Option<Store>>>),
    /// An AllocSvr, once it has started.
    Alloc(Arc<Mutex<Option<Alloc>>>),
    /// Callers.
    Client,
}

/// A machine and its process.
pub struct Machine {
    /// Its number.
    pub id: MachineId,
    /// What runs on it.
    pub role: Role,
    /// Its clocks.
    pub clock: MachineClock,
    /// Its process; None: it does not run.
    pub process: Option<Process>,
    /// Why its process did not start.
    pub refusal: Arc<Mutex<Option<String>>>,
    /// Whether it takes part in the run.
    pub in_use: bool,
    /// Whether it ever took part.
    pub(super) was_used: bool,
    /// Whether its store lost its disk since it joined.
    pub is_wiped: bool,
    /// Whether a fault explains that its server ends by itself.
    pub may_stop: bool,
    /// Whether an operator took its store out of the group.
    pub is_removed: bool,
    /// Id of its store.
    pub(super) store_id: u64,
    /// How often it was started up.
    pub(super) boots: u64,
    pub(super) dir: PathBuf,
}

impl Machine {
    /// Where its server keeps what must last.
    pub fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Where its AllocSvr proves that it was restarted.
    pub(super) fn state_dir(&self) -> PathBuf {
        self.dir.join("state")
    }

    /// Its store, if it runs.
    pub fn store(&self) -> Option<Store> {
        match &self.role {
            Role::Store(running) if self.process.is_some() => running.lock().clone(),
            _ => None,
        }
    }

    /// Its AllocSvr, if it runs.
    pub fn alloc(&self) -> Option<Alloc> {
        match &self.role {
            Role::Alloc(running) if self.process.is_some() => running.lock().clone(),
            _ => None,
        }
    }

    pub(super) fn forget_handle(&self) {
        match &self.role {
            Role::Store(running) => drop(running.lock().take()),
            Role::Alloc(running) => drop(running.lock().take()),
            Role::Client => {}
        }
    }
}
