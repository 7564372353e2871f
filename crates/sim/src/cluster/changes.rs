//! Changes of the machines in use: they join, leave, or lose their disks.

use std::io;

use seqsvr_store::sim as disks;

use super::{Cluster, STORES_MAX, stores};
use crate::net::MachineId;
use crate::plan::RowsFate;

impl Cluster {
    /// Starts a machine with an empty disk.
    ///
    /// # Errors
    /// If [`Cluster::start`] fails.
    pub fn start_empty(&mut self, id: MachineId) -> io::Result<()> {
        self.prepare(id)?;
        self.start(id)
    }

    /// Takes a machine into use with an empty disk.
    fn prepare(&mut self, id: MachineId) -> io::Result<()> {
        let sync_ms = self.setup.sync_ms;
        if let Some(machine) = self.machines.get_mut(&id) {
            (machine.in_use, machine.was_used) = (true, true);
            disks::remove(&machine.data_dir())?;
            if machine.dir.exists() {
                std::fs::remove_dir_all(&machine.dir)?;
            }
            disks::set_syncs(&machine.data_dir(), sync_ms, false);
        }
        Ok(())
    }

    /// Starts an unused machine as a store of this id; with `copied_from`, on a copy of that
    /// store's directory. None if all machines were used.
    ///
    /// # Errors
    /// If [`Cluster::start`] fails.
    pub fn start_spare_store(
        &mut self,
        store_id: Option<u64>,
        copied_from: Option<MachineId>,
    ) -> io::Result<Option<MachineId>> {
        let is_unused = |id: &MachineId| self.machines.get(id).is_some_and(|m| !m.was_used);
        let Some(id) = (1..=STORES_MAX).find(is_unused) else {
            return Ok(None);
        };
        let from = copied_from.and_then(|from| self.machines.get(&from));
        let from = from.map(|machine| machine.data_dir());
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.store_id = store_id.unwrap_or(u64::from(id));
        }
        self.prepare(id)?;
        if let (Some(from), Some(machine)) = (from, self.machines.get(&id)) {
            disks::copy(&from, &machine.data_dir())?;
        }
        self.start(id)?;
        Ok(Some(id))
    }

    /// Starts the AllocSvr that does not run from the start. None if it has been started before.
    ///
    /// # Errors
    /// If [`Cluster::start`] fails.
    pub fn start_spare_alloc(&mut self) -> io::Result<Option<MachineId>> {
        let id = 11 + self.setup.allocs;
        match self.machines.get(&id).is_some_and(|m| m.was_used) {
            true => Ok(None),
            false => self.start_empty(id).map(|()| Some(id)),
        }
    }

    /// Records that a fault explains if the server of a machine ends by itself.
    pub fn excuse(&mut self, id: MachineId) {
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.may_stop = true;
        }
    }

    /// Records that a server has left the cluster. It keeps running until all faults end.
    pub fn mark_removed(&mut self, id: MachineId) {
        if let Some(machine) = self.machines.get_mut(&id) {
            (machine.is_removed, machine.may_stop) = (true, true);
        }
    }

    /// Takes a machine out of use.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn discard(&mut self, id: MachineId) -> io::Result<()> {
        self.tell(id, "is given up");
        self.end(id, true, RowsFate::Lose(0))?;
        if let Some(machine) = self.machines.get_mut(&id) {
            machine.in_use = false;
        }
        Ok(())
    }

    /// Kills a store, deletes its disk and restarts it.
    ///
    /// # Errors
    /// If [`Cluster::start`] fails.
    pub fn wipe(&mut self, id: MachineId) -> io::Result<()> {
        self.tell(id, "is wiped");
        self.end(id, true, RowsFate::Lose(0))?;
        if let Some(machine) = self.machines.get_mut(&id) {
            (machine.is_wiped, machine.may_stop) = (true, true);
        }
        self.net.power_on(id);
        self.start_empty(id)
    }

    /// Wipes all stores, and all AllocSvrs except the first `kept`, so that an operator can
    /// initialize another cluster.
    ///
    /// # Errors
    /// If [`Cluster::start`] fails.
    pub fn remake(&mut self, kept: u32) -> io::Result<()> {
        self.remade_at = Some(self.now);
        for id in self.stores() {
            self.discard(id)?;
        }
        for id in stores(&self.setup) {
            self.wipe(id)?;
        }
        for machine in self.machines.values_mut() {
            (machine.is_wiped, machine.is_removed) = (false, false);
            // AllocSvrs end when their cluster no longer exists.
            machine.may_stop = true;
        }
        for id in self.allocs().into_iter().skip(kept as usize) {
            self.end(id, true, RowsFate::Lose(0))?;
            self.net.power_on(id);
            self.start_empty(id)?;
        }
        Ok(())
    }

    /// Returns the id of the store on a machine.
    pub fn store_id(&self, id: MachineId) -> u64 {
        self.machines.get(&id).map_or(0, |machine| machine.store_id)
    }
}
