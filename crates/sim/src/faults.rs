//! Begins and ends the faults of a plan.

mod effects;

use std::collections::BTreeMap;
use std::io;

use crate::clock::Rates;
use crate::cluster::Cluster;
use crate::net::MachineId;
use crate::plan::{Fault, Plan, Target, What};
use effects::{begin, change_clocks, end, replace, restart_if_ended};

/// Interval at which AllocSvrs that ended are restarted, ms.
const SUPERVISED_EVERY_MS: u64 = 500;

/// Fault that has begun and not ended.
struct Begun {
    what: What,
    target: MachineId,
}

/// Faults of a plan that have not ended.
pub struct Faults {
    /// Faults that have not begun; the next one is last.
    waiting: Vec<Fault>,
    /// Faults that have begun, by their end (ms) and a number.
    begun: BTreeMap<(u64, u64), Begun>,
    count: u64,
    begin: u64,
    has_bounded_clocks: bool,
}

/// Order to an operator, which runs on the machine of a client.
pub enum Order {
    /// Initialize another cluster.
    Make,
    /// Replace an old store by a new one.
    Replace {
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
    ReuseId {
        /// Id of both stores.
        id: u64,
        /// Machine of the old store.
        old: MachineId,
        /// Machine of the new store.
        new: MachineId,
    },
    /// Move a slot to an AllocSvr.
    Move(u32, String),
    /// Drain an AllocSvr, or cancel its drain.
    Drain(String, bool),
    /// Transfer the leadership to another store.
    Transfer,
    /// Shut an AllocSvr down gracefully.
    Leave(MachineId),
}

impl Faults {
    /// Creates the faults of a plan whose load begins at the time `begin` (ms).
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

    /// Begins and ends the faults that are due. Returns the orders to operators.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn step(&mut self, cluster: &mut Cluster) -> io::Result<Vec<Order>> {
        let now = cluster.now;
        let mut orders = Vec::new();
        while let Some(first) = self.begun.first_entry() {
            if first.key().0 > now {
                break;
            }
            let begun = first.remove();
            end(cluster, &begun.what, begun.target, &mut orders)?;
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
            if let Some(target) = begin(cluster, &fault, target, &mut orders)? {
                self.count += 1;
                let what = fault.what;
                self.begun
                    .insert((now + fault.for_ms, self.count), Begun { what, target });
            }
        }
        supervise(cluster)?;
        Ok(orders)
    }

    /// Ends all faults. Returns the orders to operators.
    ///
    /// # Errors
    /// If the file system rejects a change.
    pub fn heal(&mut self, cluster: &mut Cluster) -> io::Result<Vec<Order>> {
        self.waiting.clear();
        let mut orders = Vec::new();
        for begun in std::mem::take(&mut self.begun).into_values() {
            end(cluster, &begun.what, begun.target, &mut orders)?;
        }
        cluster.net.heal();
        let all: Vec<MachineId> = cluster.machines.keys().copied().collect();
        for id in all {
            if cluster.machines.get(&id).is_some_and(|m| m.is_removed) {
                cluster.discard(id)?;
            }
            let machine = cluster.machines.get(&id);
            if machine.is_none_or(|machine| !machine.in_use) {
                continue;
            }
            if machine.is_some_and(|machine| machine.is_wiped) {
                replace(cluster, id, &mut orders)?;
            }
            restart_if_ended(cluster, id)?;
            cluster.bring_back(id)?;
            // A server with frozen clocks would never come back.
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

/// Restarts AllocSvrs that ended, as a service manager does.
///
/// # Errors
/// If the operating system provides no runtime.
pub fn supervise(cluster: &mut Cluster) -> io::Result<()> {
    if cluster.now.is_multiple_of(SUPERVISED_EVERY_MS) {
        for id in cluster.allocs() {
            restart_if_ended(cluster, id)?;
        }
    }
    Ok(())
}

fn choose(cluster: &Cluster, target: Target) -> Option<MachineId> {
    let at = |mut all: Vec<MachineId>, n: u32| {
        let n = n as usize % all.len().max(1);
        (n < all.len()).then(|| all.swap_remove(n))
    };
    let mut stores = cluster.stores();
    stores.retain(|id| cluster.machines.get(id).is_some_and(|m| !m.is_removed));
    match target {
        Target::Leader => cluster.leader(),
        Target::Follower(n) => {
            let leader = cluster.leader();
            stores.retain(|id| Some(*id) != leader);
            at(stores, n)
        }
        Target::Store(n) => at(stores, n),
        Target::Owner => cluster.owner(),
        Target::Alloc(n) => at(cluster.allocs(), n),
    }
}
