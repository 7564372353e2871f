//! Effects of each fault at its begin and at its end.

use std::io;

use seqsvr_store::sim as disks;

use super::Order;
use crate::cluster::{Cluster, Machine, Role, name};
use crate::net::MachineId;
use crate::plan::{Direction, Fault, RowsFate, Scope, What};

/// Restarts a server that failed or did not start.
pub(super) fn restart_if_ended(cluster: &mut Cluster, id: MachineId) -> io::Result<()> {
    let Some(machine) = cluster.machines.get(&id) else {
        return Ok(());
    };
    let store = machine.store().and_then(|store| store.look().failure);
    let alloc = machine.alloc().and_then(|alloc| alloc.look().failure);
    // A machine without power starts its process when it gets power again.
    if machine.process.is_none() {
        return Ok(());
    }
    let ended = store.or(alloc).or_else(|| machine.refusal.lock().clone());
    if let Some(ended) = ended {
        cluster.tell_why(id, "is restarted", &format!(": {ended}"));
        cluster.end(id, true, RowsFate::Lose(0))?;
        cluster.start(id)?;
    }
    Ok(())
}

/// Returns all machines of a scope except the target, with those that are not in use: they may
/// join.
fn others(cluster: &Cluster, target: MachineId, scope: Scope) -> Vec<MachineId> {
    let is_in = |machine: &&Machine| match (&machine.role, scope) {
        (_, Scope::All) | (Role::Store(_), Scope::Stores | Scope::Servers) => true,
        (Role::Alloc(_), Scope::Servers) | (Role::Client, Scope::Clients) => true,
        _ => false,
    };
    let machines = cluster.machines.values().filter(is_in);
    let ids = machines.map(|machine| machine.id);
    ids.filter(|id| *id != target).collect()
}

fn servers(cluster: &Cluster) -> Vec<MachineId> {
    let stores = cluster.stores().into_iter();
    stores.chain(cluster.allocs()).collect()
}

fn part(cluster: &Cluster, target: MachineId, way: Direction, scope: Scope, is_begin: bool) {
    let net = &cluster.net;
    let change = |from, to| match is_begin {
        true => net.block(from, to),
        false => net.unblock(from, to),
    };
    for other in others(cluster, target, scope) {
        if way != Direction::In {
            change(target, other);
        }
        if way != Direction::Out {
            change(other, target);
        }
    }
}

fn slow(cluster: &Cluster, target: MachineId, more_ms: u64, scope: Scope) {
    for other in others(cluster, target, scope) {
        cluster.net.set_slow(target, other, more_ms);
        cluster.net.set_slow(other, target, more_ms);
    }
}

/// Machine that the end of a fault needs. None: nothing has to end.
pub(super) type Begun = Option<MachineId>;

/// Begins a fault.
///
/// # Errors
/// If the file system rejects a change.
pub(super) fn begin(
    cluster: &mut Cluster,
    fault: &Fault,
    target: MachineId,
    orders: &mut Vec<Order>,
) -> io::Result<Begun> {
    let until = cluster.now + fault.for_ms;
    cluster.tell(target, &format!("{:?} for {} ms", fault.what, fault.for_ms));
    match &fault.what {
        What::Part { way, scope } => part(cluster, target, *way, *scope, true),
        What::Slow { more_ms, scope } => slow(cluster, target, *more_ms, *scope),
        What::Reset => cluster.net.reset(target, None),
        What::Eat => {
            for other in others(cluster, target, Scope::All) {
                cluster.net.eat(target, other);
            }
        }
        What::Pause => pause(cluster, target, until),
        What::PauseAtRead { reads } => {
            if let Some(machine) = cluster.machines.get(&target) {
                machine.clock.pause_at_read(*reads, fault.for_ms);
            }
        }
        What::Kill { rows } => cluster.end(target, true, *rows)?,
        What::PowerCut { rows } => cluster.end(target, false, *rows)?,
        What::PowerCutAll => {
            for id in servers(cluster) {
                cluster.end(id, false, RowsFate::Lose(60))?;
            }
        }
        What::Suspend => {
            pause(cluster, target, until);
            change_clocks(cluster, target, |clocks, now| {
                clocks.set_suspended(now, true)
            });
        }
        What::Rate(rates) => {
            change_clocks(cluster, target, |clocks, now| clocks.set_rates(now, *rates));
        }
        What::Jump { by_ms } => {
            let by = by_ms * 1_000_000;
            change_clocks(cluster, target, |clocks, now| clocks.jump(now, by));
        }
        What::SlowSync { ms } => set_syncs(cluster, target, (*ms / 2, *ms), false),
        What::FailSync => {
            cluster.excuse(target);
            set_syncs(cluster, target, cluster.setup.sync_ms, true);
        }
        What::Leave => orders.push(Order::Leave(target)),
        What::Move { slot } => {
            let allocs = cluster.allocs();
            let to = fault.at_ms as usize % allocs.len().max(1);
            orders.extend(allocs.get(to).map(|to| Order::Move(*slot, name(*to))));
        }
        What::Drain => orders.push(Order::Drain(name(target), false)),
        What::Transfer => orders.push(Order::Transfer),
        What::Join => return cluster.start_spare_alloc(),
        What::Replace => replace(cluster, target, orders)?,
        What::Wipe => cluster.wipe(target)?,
        What::ReuseId => {
            let id = cluster.store_id(target);
            let Some(spare) = cluster.start_spare_store(Some(id), None)? else {
                return Ok(None);
            };
            cluster.excuse(target);
            cluster.excuse(spare);
            part(cluster, target, Direction::Both, Scope::All, true);
            orders.push(Order::ReuseId {
                id,
                old: target,
                new: spare,
            });
        }
        What::Copy => {
            let id = cluster.store_id(target);
            let copy = cluster.start_spare_store(Some(id), Some(target))?;
            copy.iter().for_each(|copy| cluster.excuse(*copy));
            return Ok(copy);
        }
        What::Remake { kept } => {
            cluster.remake(*kept)?;
            orders.push(Order::Make);
        }
    }
    Ok(Some(target))
}

/// Starts a new store, and orders an operator to replace the target by it.
pub(super) fn replace(
    cluster: &mut Cluster,
    target: MachineId,
    orders: &mut Vec<Order>,
) -> io::Result<()> {
    if let Some(new) = cluster.start_spare_store(None, None)? {
        orders.push(Order::Replace {
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
pub(super) fn end(
    cluster: &mut Cluster,
    what: &What,
    target: MachineId,
    orders: &mut Vec<Order>,
) -> io::Result<()> {
    match what {
        What::Part { way, scope } => part(cluster, target, *way, *scope, false),
        What::Slow { scope, .. } => slow(cluster, target, 0, *scope),
        What::Kill { .. } | What::PowerCut { .. } => cluster.bring_back(target)?,
        What::PowerCutAll => {
            for id in servers(cluster) {
                cluster.bring_back(id)?;
            }
        }
        What::Suspend => {
            change_clocks(cluster, target, |clocks, now| {
                clocks.set_suspended(now, false)
            });
        }
        What::SlowSync { .. } => set_syncs(cluster, target, cluster.setup.sync_ms, false),
        What::FailSync => {
            set_syncs(cluster, target, cluster.setup.sync_ms, false);
            restart_if_ended(cluster, target)?;
        }
        What::Leave => {
            cluster.end(target, true, RowsFate::Lose(0))?;
            cluster.bring_back(target)?;
        }
        What::Drain => orders.push(Order::Drain(name(target), true)),
        What::Join => {
            orders.push(Order::Leave(target));
            cluster.mark_removed(target);
        }
        What::ReuseId => part(cluster, target, Direction::Both, Scope::All, false),
        What::Copy => cluster.discard(target)?,
        What::Reset
        | What::Eat
        | What::Pause
        | What::PauseAtRead { .. }
        | What::Rate(_)
        | What::Jump { .. }
        | What::Move { .. }
        | What::Transfer
        | What::Replace
        | What::Wipe
        | What::Remake { .. } => return Ok(()),
    }
    cluster.tell(target, "fault ends");
    Ok(())
}

fn pause(cluster: &mut Cluster, target: MachineId, until: u64) {
    let machine = cluster.machines.get_mut(&target);
    if let Some(process) = machine.and_then(|machine| machine.process.as_mut()) {
        process.pause(until);
    }
}

pub(super) fn change_clocks(
    cluster: &Cluster,
    id: MachineId,
    change: impl FnOnce(&mut crate::clock::Clocks, u64),
) {
    if let Some(machine) = cluster.machines.get(&id) {
        machine.clock.change(change);
    }
}

fn set_syncs(cluster: &Cluster, id: MachineId, ms: (u64, u64), fails: bool) {
    if let Some(machine) = cluster.machines.get(&id) {
        disks::set_syncs(&machine.data_dir(), ms, fails);
    }
}
