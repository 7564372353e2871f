//! World of a run: it gives turns to the processes and calls the judges.

mod live;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::sim;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::callers::run_client;
use crate::cluster::{Cluster, allocs, clients, stores};
use crate::faults::{Faults, Order};
use crate::judge::rows::RowsJudge;
use crate::judge::state::StateJudge;
use crate::judge::stops;
use crate::judge::takeover::TakeoverJudge;
use crate::net::{MachineId, Net};
use crate::plan::{Draw, Plan, RowsFate};
use crate::record::{Report, Shared};
use crate::run::Outcome;
use crate::shim;
use crate::trace::Trace;

/// Maximum simulated time until the cluster answers every client, ms. Above it, the run fails.
const READY_MAX_MS: u64 = 120_000;
/// Number of turns between two looks of the judges.
const LOOK_EVERY: u64 = 10;

/// World of a run.
pub struct World {
    pub(super) plan: Plan,
    pub(super) cluster: Cluster,
    pub(super) shared: Arc<Shared>,
    orders: UnboundedSender<Order>,
    judge: StateJudge,
    rows: RowsJudge,
    takeovers: TakeoverJudge,
    /// Time of the last reset of the judges, because another cluster was made.
    remade_at: Option<u64>,
    turns: Draw,
    pub(super) broken: Vec<String>,
}

impl World {
    /// Creates a world in which servers and clients have just started.
    ///
    /// # Errors
    /// If the file system or the operating system rejects a request.
    pub fn new(plan: &Plan, root: &std::path::Path, prints: bool) -> io::Result<World> {
        let mut trace = Trace::default();
        if prints {
            trace.print_all();
        }
        let net = Net::new(sim::mix(plan.seed, 3), plan.setup.net, trace);
        let mut cluster = Cluster::new(plan, net.clone(), root);
        for id in stores(&plan.setup).chain(allocs(&plan.setup)) {
            cluster.start_empty(id)?;
        }
        for id in clients(&plan.setup) {
            cluster.start(id)?;
        }
        let shared = Arc::new(Shared::new(net, plan.has_bounded_clocks));
        let (orders, receiver) = unbounded_channel();
        let mut receiver = Some(receiver);
        for id in clients(&plan.setup) {
            let task = run_client(id, plan.clone(), shared.clone(), receiver.take());
            if let Some(process) = &cluster.machines[&id].process {
                process.spawn(task);
            }
        }
        Ok(World {
            plan: plan.clone(),
            cluster,
            shared,
            orders,
            judge: StateJudge::default(),
            rows: RowsJudge::default(),
            takeovers: TakeoverJudge::default(),
            remade_at: None,
            turns: Draw::new(plan.seed, "turns"),
            broken: Vec::new(),
        })
    }

    /// Runs the plan to its end.
    ///
    /// # Errors
    /// If the file system or the operating system rejects a request.
    pub fn run(&mut self) -> io::Result<Outcome> {
        let client_count = u64::from(self.plan.setup.clients);
        let mut early = self.plan.hits_genesis.then(|| Faults::new(&self.plan, 0));
        while self.shared.ready.load(Relaxed) < client_count && self.broken.is_empty() {
            if let Some(faults) = &mut early {
                let orders = faults.step(&mut self.cluster)?;
                self.order(orders);
            }
            self.follow_operator()?;
            self.turn();
            if self.cluster.now > READY_MAX_MS {
                self.broken
                    .push(String::from("live: the cluster did not come up"));
            }
        }
        let begin = self.cluster.now;
        let mut faults = early.unwrap_or_else(|| Faults::new(&self.plan, begin));
        let heal_at = begin + self.plan.heal_at_ms;
        while self.cluster.now < heal_at && self.broken.is_empty() {
            let orders = faults.step(&mut self.cluster)?;
            self.order(orders);
            self.follow_operator()?;
            self.turn();
        }
        if self.broken.is_empty() {
            let orders = faults.heal(&mut self.cluster)?;
            self.order(orders);
            self.live_on()?;
        }
        Ok(self.outcome())
    }

    /// Applies the actions of operators to the machines.
    pub(super) fn follow_operator(&mut self) -> io::Result<()> {
        let reports = std::mem::take(&mut *self.shared.reports.lock());
        for report in reports {
            match report {
                Report::Removed(id) => self.cluster.mark_removed(id),
                Report::Refused(id) => self.cluster.discard(id)?,
                Report::CannotMake => self.cluster.remake(self.plan.setup.allocs)?,
            }
        }
        Ok(())
    }

    pub(super) fn order(&mut self, orders: Vec<Order>) {
        for order in orders {
            match order {
                Order::Leave(id) => {
                    let machine = &self.cluster.machines[&id];
                    if let (Some(alloc), Some(process)) = (machine.alloc(), &machine.process) {
                        process.spawn(async move { alloc.shutdown().await });
                    }
                }
                other => {
                    // The receiving client lives as long as the run.
                    let _ = self.orders.send(other);
                }
            }
        }
    }

    /// Runs one turn of the world: delivers segments that are due, gives each process a turn, and
    /// calls the judges.
    pub(super) fn turn(&mut self) {
        let tick = self.plan.setup.tick_ms;
        self.cluster.now += tick;
        let now = self.cluster.now;
        shim::set_now(Some(now * 1_000_000));
        self.shared.set_now(now);
        self.cluster.net.advance(now);
        let mut order: Vec<MachineId> = self.cluster.machines.keys().copied().collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.turns.below(at as u64 + 1) as usize);
        }
        for id in order {
            let Some(machine) = self.cluster.machines.get_mut(&id) else {
                continue;
            };
            machine.clock.set_now(now);
            if let Some(process) = &mut machine.process {
                process.step(now);
            }
        }
        sim::enter(0);
        if let Some(broken) = self.shared.online.lock().broken.take() {
            self.broken.push(format!("answer: {broken}"));
        }
        if (now / tick).is_multiple_of(LOOK_EVERY) {
            let broken = self.look();
            self.broken
                .extend(broken.map(|broken| format!("at {now}: {broken}")));
        }
    }

    fn look(&mut self) -> Option<String> {
        let cluster = &self.cluster;
        if self.remade_at != cluster.remade_at {
            self.remade_at = cluster.remade_at;
            (self.judge, self.rows) = Default::default();
        }
        let is_bounded = self.plan.has_bounded_clocks;
        let inside = self.judge.look(cluster, is_bounded);
        let inside = inside.or_else(|| self.rows.look(cluster));
        let inside = inside.or_else(|| stops::look(cluster));
        let inside = inside.map(|broken| format!("invariant {broken}"));
        inside.or_else(|| match self.plan.bounds_takeover {
            true => self.takeovers.look(cluster),
            false => None,
        })
    }

    fn outcome(&mut self) -> Outcome {
        let calls = std::mem::take(&mut *self.shared.calls.lock());
        if self.broken.is_empty() && self.plan.has_bounded_clocks {
            match seqsvr_check::check(&calls) {
                Ok(report) => {
                    let violations = report.violations.iter().take(3);
                    self.broken
                        .extend(violations.map(|v| format!("check: {}", v.sentence)));
                }
                Err(e) => self.broken.push(format!("check: {e}")),
            }
        }
        // End the processes before the disks and the network that they write to.
        let all: Vec<MachineId> = self.cluster.machines.keys().copied().collect();
        for id in all {
            self.cluster.net.power_off(id);
            let _ = self.cluster.end(id, true, RowsFate::Lose(0));
        }
        let (hash, events, last) = self
            .cluster
            .net
            .with_trace(|_, trace| (trace.hash(), trace.count(), trace.last()));
        Outcome {
            broken: std::mem::take(&mut self.broken),
            hash,
            events,
            calls: calls.len() as u64,
            answered: self.shared.answered.load(Relaxed),
            virtual_ms: self.cluster.now,
            last,
            ..Outcome::default()
        }
    }
}
