//! Begins and ends the faults of a plan.

use std::collections::BTreeMap;
use std::io;

use super::fault_effects::{
    begin_fault, change_clocks, end_fault, order_replacement, restart_if_ended,
};
use super::operator_command::OperatorCommand;
use crate::cluster::SimCluster;
use crate::machine::Rates;
use crate::network::MachineId;
use crate::plan::{FaultKind, FaultTarget, PlannedFault, RunPlan};

/// Interval at which AllocSvrs that ended are restarted, ms.
const SUPERVISION_INTERVAL_MS: u64 = 500;

/// Fault that has begun and not ended.
struct ActiveFault {
    kind: FaultKind,
    target: MachineId,
}

/// Faults of a plan that have not ended.
pub struct FaultScheduler {
    /// Faults that have not begun; the next one is last.
    pending: Vec<PlannedFault>,
    /// Faults that have begun, by their end (ms) and a number.
    active: BTreeMap<(u64, u64), ActiveFault>,
    begun_count: u64,
    load_begin_ms: u64,
    has_bounded_clocks: bool,
}

impl FaultScheduler {
    /// Creates the faults of a plan whose load begins at the time `begin` (ms).
    pub fn new(plan: &RunPlan, begin: u64) -> FaultScheduler {
        let mut pending = plan.faults.clone();
        pending.sort_by_key(|fault| std::cmp::Reverse(fault.at_ms));
        FaultScheduler {
            pending,
            active: BTreeMap::new(),
            begun_count: 0,
            load_begin_ms: begin,
            has_bounded_clocks: plan.has_bounded_clocks,
        }
    }

    /// Begins and ends the faults that are due. Returns the commands to operators.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn advance(&mut self, cluster: &mut SimCluster) -> io::Result<Vec<OperatorCommand>> {
        let now = cluster.now_ms;
        let mut commands = Vec::new();
        while let Some(first) = self.active.first_entry() {
            if first.key().0 > now {
                break;
            }
            let ended = first.remove();
            end_fault(cluster, &ended.kind, ended.target, &mut commands)?;
        }
        while self
            .pending
            .last()
            .is_some_and(|fault| self.load_begin_ms + fault.at_ms <= now)
        {
            let Some(fault) = self.pending.pop() else {
                break;
            };
            let Some(target) = resolve_target(cluster, fault.target) else {
                continue;
            };
            if let Some(target) = begin_fault(cluster, &fault, target, &mut commands)? {
                self.begun_count += 1;
                let kind = fault.kind;
                self.active.insert(
                    (now + fault.for_ms, self.begun_count),
                    ActiveFault { kind, target },
                );
            }
        }
        restart_ended_allocs(cluster)?;
        Ok(commands)
    }

    /// Ends all faults. Returns the commands to operators.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn end_all(&mut self, cluster: &mut SimCluster) -> io::Result<Vec<OperatorCommand>> {
        self.pending.clear();
        let mut commands = Vec::new();
        for active in std::mem::take(&mut self.active).into_values() {
            end_fault(cluster, &active.kind, active.target, &mut commands)?;
        }
        cluster.net.clear_link_faults();
        let all: Vec<MachineId> = cluster.machines.keys().copied().collect();
        for id in all {
            if cluster.machines.get(&id).is_some_and(|m| m.is_removed) {
                cluster.discard_machine(id)?;
            }
            let machine = cluster.machines.get(&id);
            if machine.is_none_or(|machine| !machine.is_in_use) {
                continue;
            }
            if machine.is_some_and(|machine| machine.is_wiped) {
                order_replacement(cluster, id, &mut commands)?;
            }
            restart_if_ended(cluster, id)?;
            cluster.restore_process(id)?;
            // A server with frozen clocks would never come back.
            if !self.has_bounded_clocks {
                change_clocks(cluster, id, |clocks, now| {
                    clocks.set_rates(now, Rates::TRUE)
                });
            }
            if let Some(machine) = cluster.machines.get(&id) {
                machine.clock.cancel_pause();
            }
            let now = cluster.now_ms;
            if let Some(process) = cluster
                .machines
                .get_mut(&id)
                .and_then(|m| m.process.as_mut())
            {
                process.resume_at(now);
            }
        }
        Ok(commands)
    }
}

/// Restarts AllocSvrs that ended, as a service manager does.
///
/// # Errors
/// If the operating system provides no runtime.
pub fn restart_ended_allocs(cluster: &mut SimCluster) -> io::Result<()> {
    if cluster.now_ms.is_multiple_of(SUPERVISION_INTERVAL_MS) {
        for id in cluster.allocs_in_use() {
            restart_if_ended(cluster, id)?;
        }
    }
    Ok(())
}

fn resolve_target(cluster: &SimCluster, target: FaultTarget) -> Option<MachineId> {
    let at = |mut all: Vec<MachineId>, n: u32| {
        let n = n as usize % all.len().max(1);
        (n < all.len()).then(|| all.swap_remove(n))
    };
    let mut stores = cluster.stores_in_use();
    stores.retain(|id| cluster.machines.get(id).is_some_and(|m| !m.is_removed));
    match target {
        FaultTarget::Leader => cluster.find_leader(),
        FaultTarget::Follower(n) => {
            let leader = cluster.find_leader();
            stores.retain(|id| Some(*id) != leader);
            at(stores, n)
        }
        FaultTarget::Store(n) => at(stores, n),
        FaultTarget::Owner => cluster.find_largest_owner(),
        FaultTarget::Alloc(n) => at(cluster.allocs_in_use(), n),
        FaultTarget::Holder(n) => at(cluster.holders_in_use(), n),
    }
}
