//! Effects of each fault at its begin and at its end.

use std::io;

use seqsvr_store::sim as disks;

use super::operator_command::OperatorCommand;
use crate::cluster::{SimCluster, machine_name};
use crate::machine::{MachineRole, SimMachine, TRUE_RATE};
use crate::network::MachineId;
use crate::plan::{FaultKind, PartitionDirection, PartitionScope, PlannedFault, RowsCrashEffect};

/// Restarts a server that failed or did not start.
pub(super) fn restart_if_ended(cluster: &mut SimCluster, id: MachineId) -> io::Result<()> {
    let Some(machine) = cluster.machines.get(&id) else {
        return Ok(());
    };
    let store = machine
        .running_store()
        .and_then(|store| store.look().failure);
    let alloc = machine
        .running_alloc()
        .and_then(|alloc| alloc.look().failure);
    // A machine without power starts its process when it gets power again.
    if machine.process.is_none() {
        return Ok(());
    }
    let ended = store
        .or(alloc)
        .or_else(|| machine.start_error.lock().clone());
    if let Some(ended) = ended {
        cluster.trace_event_with_reason(id, "is restarted", &format!(": {ended}"));
        cluster.end_process(id, true, RowsCrashEffect::Lose(0))?;
        cluster.start_process(id)?;
    }
    Ok(())
}

/// Returns all machines of a scope except the target, with those that are not in use: they may
/// join.
fn machines_in_scope(
    cluster: &SimCluster,
    target: MachineId,
    scope: PartitionScope,
) -> Vec<MachineId> {
    let is_in = |machine: &&SimMachine| match (&machine.role, scope) {
        (_, PartitionScope::All)
        | (MachineRole::Store(_), PartitionScope::Stores | PartitionScope::Servers) => true,
        (MachineRole::Alloc(_), PartitionScope::Servers)
        | (MachineRole::Client | MachineRole::Holder(_), PartitionScope::Clients) => true,
        _ => false,
    };
    let machines = cluster.machines.values().filter(is_in);
    let ids = machines.map(|machine| machine.id);
    ids.filter(|id| *id != target).collect()
}

fn servers_in_use(cluster: &SimCluster) -> Vec<MachineId> {
    let stores = cluster.stores_in_use().into_iter();
    stores.chain(cluster.allocs_in_use()).collect()
}

fn set_partition(
    cluster: &SimCluster,
    target: MachineId,
    way: PartitionDirection,
    scope: PartitionScope,
    begins: bool,
) {
    let net = &cluster.net;
    let change = |from, to| match begins {
        true => net.block_link(from, to),
        false => net.unblock_link(from, to),
    };
    for other in machines_in_scope(cluster, target, scope) {
        if way != PartitionDirection::In {
            change(target, other);
        }
        if way != PartitionDirection::Out {
            change(other, target);
        }
    }
}

fn set_link_delays(cluster: &SimCluster, target: MachineId, more_ms: u64, scope: PartitionScope) {
    for other in machines_in_scope(cluster, target, scope) {
        cluster.net.set_link_delay(target, other, more_ms);
        cluster.net.set_link_delay(other, target, more_ms);
    }
}

/// Begins a fault. Returns the machine that its end needs; None: nothing has to end.
///
/// # Errors
/// If the file system rejects a change.
pub(super) fn begin_fault(
    cluster: &mut SimCluster,
    fault: &PlannedFault,
    target: MachineId,
    commands: &mut Vec<OperatorCommand>,
) -> io::Result<Option<MachineId>> {
    let until = cluster.now_ms + fault.for_ms;
    cluster.trace_event(target, &format!("{:?} for {} ms", fault.kind, fault.for_ms));
    match &fault.kind {
        FaultKind::Part { way, scope } => set_partition(cluster, target, *way, *scope, true),
        FaultKind::Slow { more_ms, scope } => set_link_delays(cluster, target, *more_ms, *scope),
        FaultKind::Reset => cluster.net.reset_connections(target, None),
        FaultKind::Eat => {
            for other in machines_in_scope(cluster, target, PartitionScope::All) {
                cluster.net.discard_sent(target, other);
            }
        }
        FaultKind::Pause => pause_process(cluster, target, until),
        FaultKind::PauseAtRead { reads } => {
            if let Some(machine) = cluster.machines.get(&target) {
                machine.clock.plan_pause_at_read(*reads, fault.for_ms);
            }
        }
        FaultKind::Kill { rows } => cluster.end_process(target, true, *rows)?,
        FaultKind::PowerCut { rows } => cluster.end_process(target, false, *rows)?,
        FaultKind::PowerCutAll => {
            for id in servers_in_use(cluster) {
                cluster.end_process(id, false, RowsCrashEffect::Lose(60))?;
            }
        }
        FaultKind::Suspend => {
            pause_process(cluster, target, until);
            change_clocks(cluster, target, |clocks, now| {
                clocks.set_suspended(now, true)
            });
        }
        FaultKind::Rate(rates) => {
            change_clocks(cluster, target, |clocks, now| clocks.set_rates(now, *rates));
        }
        FaultKind::Jump { by_ms } => {
            let by = by_ms * 1_000_000;
            change_clocks(cluster, target, |clocks, now| clocks.jump_ahead(now, by));
        }
        FaultKind::Wall { by_ms, rate, all } => {
            set_wall_clocks(cluster, target, *all, by_ms * 1_000_000, *rate);
        }
        FaultKind::SlowSync { ms } => set_disk_syncs(cluster, target, (*ms / 2, *ms), false),
        FaultKind::FailSync => {
            cluster.excuse_stop(target);
            set_disk_syncs(cluster, target, cluster.setup.sync_ms, true);
        }
        FaultKind::Leave => commands.push(OperatorCommand::ShutDownAlloc(target)),
        FaultKind::Move { slot } => {
            let allocs = cluster.allocs_in_use();
            let to = fault.at_ms as usize % allocs.len().max(1);
            commands.extend(
                allocs
                    .get(to)
                    .map(|to| OperatorCommand::MoveSlot(*slot, machine_name(*to))),
            );
        }
        FaultKind::Drain => commands.push(OperatorCommand::DrainAlloc {
            name: machine_name(target),
            cancels: false,
        }),
        FaultKind::Transfer => commands.push(OperatorCommand::TransferLeadership),
        FaultKind::Join => return cluster.start_spare_alloc(),
        FaultKind::Replace => order_replacement(cluster, target, commands)?,
        FaultKind::Wipe => cluster.wipe_store(target)?,
        FaultKind::ReuseId => {
            let id = cluster.store_id(target);
            let Some(spare) = cluster.start_spare_store(Some(id), None)? else {
                return Ok(None);
            };
            cluster.excuse_stop(target);
            cluster.excuse_stop(spare);
            set_partition(
                cluster,
                target,
                PartitionDirection::Both,
                PartitionScope::All,
                true,
            );
            commands.push(OperatorCommand::ReuseStoreId {
                id,
                old: target,
                new: spare,
            });
        }
        FaultKind::Copy => {
            let id = cluster.store_id(target);
            let copy = cluster.start_spare_store(Some(id), Some(target))?;
            copy.iter().for_each(|copy| cluster.excuse_stop(*copy));
            return Ok(copy);
        }
        FaultKind::Remake { kept } => {
            cluster.wipe_cluster(*kept)?;
            commands.push(OperatorCommand::InitCluster);
        }
    }
    Ok(Some(target))
}

/// Starts a new store, and has an operator replace the target by it.
pub(super) fn order_replacement(
    cluster: &mut SimCluster,
    target: MachineId,
    commands: &mut Vec<OperatorCommand>,
) -> io::Result<()> {
    if let Some(new) = cluster.start_spare_store(None, None)? {
        commands.push(OperatorCommand::ReplaceStore {
            id: cluster.store_id(target),
            old: target,
            new,
            // A wiped store has nothing to send to its replacement.
            removes_first: cluster.machines.get(&target).is_some_and(|m| m.is_wiped),
        });
    }
    Ok(())
}

/// Ends a fault. `target` is the machine that its begin returned.
///
/// # Errors
/// If the file system rejects a change.
pub(super) fn end_fault(
    cluster: &mut SimCluster,
    kind: &FaultKind,
    target: MachineId,
    commands: &mut Vec<OperatorCommand>,
) -> io::Result<()> {
    match kind {
        FaultKind::Part { way, scope } => set_partition(cluster, target, *way, *scope, false),
        FaultKind::Slow { scope, .. } => set_link_delays(cluster, target, 0, *scope),
        FaultKind::Kill { .. } | FaultKind::PowerCut { .. } => cluster.restore_process(target)?,
        FaultKind::PowerCutAll => {
            for id in servers_in_use(cluster) {
                cluster.restore_process(id)?;
            }
        }
        FaultKind::Suspend => {
            change_clocks(cluster, target, |clocks, now| {
                clocks.set_suspended(now, false)
            });
        }
        FaultKind::Wall { all, .. } => set_wall_clocks(cluster, target, *all, 0, TRUE_RATE),
        FaultKind::SlowSync { .. } => set_disk_syncs(cluster, target, cluster.setup.sync_ms, false),
        FaultKind::FailSync => {
            set_disk_syncs(cluster, target, cluster.setup.sync_ms, false);
            restart_if_ended(cluster, target)?;
        }
        FaultKind::Leave => {
            cluster.end_process(target, true, RowsCrashEffect::Lose(0))?;
            cluster.restore_process(target)?;
        }
        FaultKind::Drain => commands.push(OperatorCommand::DrainAlloc {
            name: machine_name(target),
            cancels: true,
        }),
        FaultKind::Join => {
            commands.push(OperatorCommand::ShutDownAlloc(target));
            cluster.mark_removed(target);
        }
        FaultKind::ReuseId => set_partition(
            cluster,
            target,
            PartitionDirection::Both,
            PartitionScope::All,
            false,
        ),
        FaultKind::Copy => cluster.discard_machine(target)?,
        FaultKind::Reset
        | FaultKind::Eat
        | FaultKind::Pause
        | FaultKind::PauseAtRead { .. }
        | FaultKind::Rate(_)
        | FaultKind::Jump { .. }
        | FaultKind::Move { .. }
        | FaultKind::Transfer
        | FaultKind::Replace
        | FaultKind::Wipe
        | FaultKind::Remake { .. } => return Ok(()),
    }
    cluster.trace_event(target, "fault ends");
    Ok(())
}

fn pause_process(cluster: &mut SimCluster, target: MachineId, until: u64) {
    let machine = cluster.machines.get_mut(&target);
    if let Some(process) = machine.and_then(|machine| machine.process.as_mut()) {
        process.pause_until(until);
    }
}

pub(super) fn change_clocks(
    cluster: &SimCluster,
    id: MachineId,
    change: impl FnOnce(&mut crate::machine::ClockSet, u64),
) {
    if let Some(machine) = cluster.machines.get(&id) {
        machine.clock.change_clocks(change);
    }
}

/// Sets the wall clock of a store, or of all stores.
fn set_wall_clocks(cluster: &SimCluster, target: MachineId, all: bool, by_ns: i64, rate: u64) {
    let stores = match all {
        true => cluster.stores_in_use(),
        false => vec![target],
    };
    for id in stores {
        change_clocks(cluster, id, |clocks, now| clocks.set_wall(now, by_ns, rate));
    }
}

fn set_disk_syncs(cluster: &SimCluster, id: MachineId, ms: (u64, u64), fails: bool) {
    if let Some(machine) = cluster.machines.get(&id) {
        disks::set_syncs(&machine.data_dir(), ms, fails);
    }
}
