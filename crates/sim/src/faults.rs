//! Makes the faults of a plan happen, and end.

use std::collections::BTreeMap;
use std::io;

use seqsvr_store::sim as disks;

use crate::clock::Rates;
use crate::cluster::{Cluster, allocs, clients, name, stores};
use crate::net::MachineId;
use crate::plan::{Direction, Fault, Plan, RowsFate, Target, What};

/// A fault that has begun.
struct Begun {
    what: What,
    target: MachineId,
}

/// The faults of a plan, on their way.
pub struct Faults {
    /// Not begun, the first one last.
    waiting: Vec<Fault>,
    /// Begun, by their end (ms) and a number.
    begun: BTreeMap<(u64, u64), Begun>,
    count: u64,
    begin: u64,
    has_bounded_clocks: bool,
}

/// What operators do in a run: done by a client.
pub enum Order {
    /// Move a slot to an AllocSvr.
    Move(u32, String),
    /// Drain an AllocSvr, or fill it again.
    Drain(String, bool),
    /// Hand the leadership over.
    Transfer,
    /// Shut an AllocSvr down in order.
    Leave(MachineId),
}

impl Faults {
    /// The faults of a plan whose load begins at this time (ms).
    pub fn new(plan: &Plan, begin: u64) -> Faults {
        let mut waiting = plan.faults.clone();
        waiting.sort_by_key(|fault| std::cmp::Reverse(fault.at_ms));
        Faults {
            waiting,
            begun: BTreeMap::new(),
            count: 0,
            begin,
            has_bounded_clocks: plan.has_bounded_clocks,
        }
    }

    /// Lets happen what is due, and returns what operators are to do.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn step(&mut self, cluster: &mut Cluster) -> io::Result<Vec<Order>> {
        let now = cluster.now;
        let mut orders = Vec::new();
        while let Some(first) = self.begun.first_entry() {
            if first.key().0 > now {
                break;
            }
            let begun = first.remove();
            end(cluster, &begun, &mut orders)?;
        }
        while self
            .waiting
            .last()
            .is_some_and(|fault| self.begin + fault.at_ms <= now)
        {
            let Some(fault) = self.waiting.pop() else {
                break;
            };
            let Some(target) = choose(cluster, fault.target) else {
                continue;
            };
            if begin(cluster, &fault, target, &mut orders)? {
                self.count += 1;
                let what = fault.what;
                self.begun
                    .insert((now + fault.for_ms, self.count), Begun { what, target });
            }
        }
        Ok(orders)
    }

    /// Ends all faults: from here on the world is calm.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn heal(&mut self, cluster: &mut Cluster) -> io::Result<Vec<Order>> {
        self.waiting.clear();
        let mut orders = Vec::new();
        for begun in std::mem::take(&mut self.begun).into_values() {
            end(cluster, &begun, &mut orders)?;
        }
        cluster.net.heal();
        let all: Vec<MachineId> = cluster.machines.keys().copied().collect();
        for id in all {
            restart_if_ended(cluster, id)?;
            cluster.bring_back(id)?;
            // Frozen clocks would keep their machine from coming to life.
            if !self.has_bounded_clocks {
                change_clocks(cluster, id, |clocks, now| {
                    clocks.set_rates(now, Rates::TRUE)
                });
            }
            if let Some(machine) = cluster.machines.get(&id) {
                machine.clock.forget_pause();
            }
            let now = cluster.now;
            if let Some(process) = cluster
                .machines
                .get_mut(&id)
                .and_then(|m| m.process.as_mut())
            {
                process.resume(now);
            }
        }
        Ok(orders)
    }
}

/// Restarts a store that ended after a failure, or did not start.
fn restart_if_ended(cluster: &mut Cluster, id: MachineId) -> io::Result<()> {
    let Some(machine) = cluster.machines.get(&id) else {
        return Ok(());
    };
    let has_failed = machine
        .store()
        .is_some_and(|store| store.look().failure.is_some());
    let has_refused = machine.refusal.lock().is_some();
    if has_failed || has_refused {
        cluster.tell(id, "is restarted");
        cluster.end(id, true, RowsFate::Lose(0))?;
        cluster.start(id)?;
    }
    Ok(())
}

fn choose(cluster: &Cluster, target: Target) -> Option<MachineId> {
    let setup = &cluster.setup;
    let at = |mut all: Vec<MachineId>, n: u32| {
        let n = n as usize % all.len().max(1);
        (n < all.len()).then(|| all.swap_remove(n))
    };
    match target {
        Target::Leader => cluster.leader(),
        Target::Follower(n) => {
            let leader = cluster.leader();
            at(stores(setup).filter(|id| Some(*id) != leader).collect(), n)
        }
        Target::Store(n) => at(stores(setup).collect(), n),
        Target::Owner => cluster.owner(),
        Target::Alloc(n) => at(allocs(setup).collect(), n),
    }
}

fn is_store(id: MachineId) -> bool {
    id < 11
}

/// All that a partition cuts the target from.
fn others(cluster: &Cluster, target: MachineId, with_clients: bool) -> Vec<MachineId> {
    let setup = &cluster.setup;
    let servers = stores(setup).chain(allocs(setup));
    let callers = clients(setup).filter(|_| with_clients);
    servers.chain(callers).filter(|id| *id != target).collect()
}

/// Begins a fault. Returns false if nothing of it has to end.
fn begin(
    cluster: &mut Cluster,
    fault: &Fault,
    target: MachineId,
    orders: &mut Vec<Order>,
) -> io::Result<bool> {
    let now = cluster.now;
    let until = now + fault.for_ms;
    cluster.tell(target, &format!("{:?} for {} ms", fault.what, fault.for_ms));
    let net = cluster.net.clone();
    match &fault.what {
        What::Part { way, clients } => {
            for other in others(cluster, target, *clients) {
                if *way != Direction::In {
                    net.block(target, other);
                }
                if *way != Direction::Out {
                    net.block(other, target);
                }
            }
        }
        What::Slow { more_ms } => {
            for other in others(cluster, target, false) {
                net.set_slow(target, other, *more_ms);
                net.set_slow(other, target, *more_ms);
            }
        }
        What::Reset => {
            net.reset(target, None);
            return Ok(false);
        }
        What::Eat => {
            for other in others(cluster, target, true) {
                net.eat(target, other);
            }
            return Ok(false);
        }
        What::Pause => {
            if let Some(process) = process(cluster, target) {
                process.pause(until);
            }
            return Ok(false);
        }
        What::PauseAtRead { reads } => {
            if let Some(machine) = cluster.machines.get(&target) {
                machine.clock.pause_at_read(*reads, fault.for_ms);
            }
            return Ok(false);
        }
        What::Kill { rows } => cluster.end(target, true, *rows)?,
        What::PowerCut { rows } => cluster.end(target, false, *rows)?,
        What::PowerCutAll => {
            for id in others(cluster, 0, false) {
                cluster.end(id, false, RowsFate::Lose(60))?;
            }
        }
        What::Suspend => {
            if let Some(process) = process(cluster, target) {
                process.pause(until);
            }
            change_clocks(cluster, target, |clocks, now| {
                clocks.set_suspended(now, true)
            });
        }
        What::Rate(rates) => {
            let rates = *rates;
            change_clocks(cluster, target, |clocks, now| clocks.set_rates(now, rates));
            return Ok(false);
        }
        What::Jump { by_ms } => {
            let by = by_ms * 1_000_000;
            change_clocks(cluster, target, |clocks, now| clocks.jump(now, by));
            return Ok(false);
        }
        What::SlowSync { ms } => set_syncs(cluster, target, (*ms / 2, *ms), false),
        What::FailSync => set_syncs(cluster, target, cluster.setup.sync_ms, true),
        What::Leave => orders.push(Order::Leave(target)),
        What::Move { slot } => {
            if let Some(to) = choose(cluster, Target::Alloc(fault.at_ms as u32)) {
                orders.push(Order::Move(*slot, name(to)));
            }
            return Ok(false);
        }
        What::Drain => orders.push(Order::Drain(name(target), false)),
        What::Transfer => {
            orders.push(Order::Transfer);
            return Ok(false);
        }
    }
    Ok(true)
}

fn end(cluster: &mut Cluster, begun: &Begun, orders: &mut Vec<Order>) -> io::Result<()> {
    let target = begun.target;
    let net = cluster.net.clone();
    match &begun.what {
        What::Part { way, clients } => {
            for other in others(cluster, target, *clients) {
                if *way != Direction::In {
                    net.unblock(target, other);
                }
                if *way != Direction::Out {
                    net.unblock(other, target);
                }
            }
        }
        What::Slow { .. } => {
            for other in others(cluster, target, false) {
                net.set_slow(target, other, 0);
                net.set_slow(other, target, 0);
            }
        }
        What::Kill { .. } | What::PowerCut { .. } => cluster.bring_back(target)?,
        What::PowerCutAll => {
            for id in others(cluster, 0, false) {
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
        What::Reset
        | What::Eat
        | What::Pause
        | What::PauseAtRead { .. }
        | What::Rate(_)
        | What::Jump { .. }
        | What::Move { .. }
        | What::Transfer => {}
    }
    cluster.tell(target, "fault ends");
    Ok(())
}

fn process(cluster: &mut Cluster, id: MachineId) -> Option<&mut crate::process::Process> {
    cluster.machines.get_mut(&id)?.process.as_mut()
}

fn change_clocks(
    cluster: &Cluster,
    id: MachineId,
    change: impl FnOnce(&mut crate::clock::Clocks, u64),
) {
    if let Some(machine) = cluster.machines.get(&id) {
        machine.clock.change(change);
    }
}

fn set_syncs(cluster: &Cluster, id: MachineId, ms: (u64, u64), fails: bool) {
    let machine = cluster.machines.get(&id).filter(|_| is_store(id));
    if let Some(machine) = machine {
        disks::set_syncs(&machine.data_dir(), ms, fails);
    }
}
