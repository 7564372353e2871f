//! World of a run: it gives turns to the processes and calls the judges.

mod failure_report;
mod liveness_phases;
mod run_outcome;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::sim;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::clients::{OperatorReport, RunContext, run_client, run_holder_on};
use crate::cluster::{SimCluster, client_ids, holder_ids, initial_alloc_ids, initial_store_ids};
use crate::event_trace::EventTrace;
use crate::faults::{FaultScheduler, OperatorCommand};
use crate::judges::invariant_judge::InvariantJudge;
use crate::judges::rows_judge::RowsJudge;
use crate::judges::session_judge::SessionJudge;
use crate::judges::takeover_judge::TakeoverJudge;
use crate::judges::unexpected_stops;
use crate::libc_shim;
use crate::network::{MachineId, SimNetwork};
use crate::plan::{RowsCrashEffect, RunPlan};
use crate::random_stream::RandomStream;

pub use run_outcome::RunOutcome;

/// Maximum simulated time until the cluster answers every client, ms. Above it, the run fails.
const READY_TIMEOUT_MS: u64 = 120_000;
/// Number of turns between two looks of the judges.
const TURNS_PER_LOOK: u64 = 10;

/// World of a run.
pub struct SimWorld {
    pub(super) plan: RunPlan,
    pub(super) cluster: SimCluster,
    pub(super) context: Arc<RunContext>,
    commands: UnboundedSender<OperatorCommand>,
    invariant_judge: InvariantJudge,
    rows_judge: RowsJudge,
    takeover_judge: TakeoverJudge,
    session_judge: SessionJudge,
    /// Time of the last reset of the judges, because another cluster was made.
    judges_reset_at_ms: Option<u64>,
    turn_order: RandomStream,
    pub(super) broken_rules: Vec<String>,
}

impl SimWorld {
    /// Creates a world in which servers and clients have just started.
    ///
    /// # Errors
    /// If the file system or the operating system rejects a request.
    pub fn new(
        plan: &RunPlan,
        root: &std::path::Path,
        prints_events: bool,
    ) -> io::Result<SimWorld> {
        let mut trace = EventTrace::default();
        if prints_events {
            trace.enable_printing();
        }
        let net = SimNetwork::new(sim::mix_bits(plan.seed, 3), plan.setup.net, trace);
        let context = Arc::new(RunContext::new(net.clone(), plan));
        let start_holder = |id| run_holder_on(id, plan, &context);
        let mut cluster = SimCluster::new(plan, net, root, start_holder);
        let servers = initial_store_ids(&plan.setup).chain(initial_alloc_ids(&plan.setup));
        for id in servers.chain(holder_ids(&plan.setup)) {
            cluster.start_with_empty_disk(id)?;
        }
        for id in client_ids(&plan.setup) {
            cluster.start_process(id)?;
        }
        let (commands, receiver) = unbounded_channel();
        let mut receiver = Some(receiver);
        for id in client_ids(&plan.setup) {
            let task = run_client(id, plan.clone(), context.clone(), receiver.take());
            if let Some(process) = &cluster.machines[&id].process {
                process.spawn_task(task);
            }
        }
        Ok(SimWorld {
            plan: plan.clone(),
            cluster,
            context,
            commands,
            invariant_judge: InvariantJudge::default(),
            rows_judge: RowsJudge::default(),
            takeover_judge: TakeoverJudge::default(),
            session_judge: SessionJudge::default(),
            judges_reset_at_ms: None,
            turn_order: RandomStream::new(plan.seed, "turns"),
            broken_rules: Vec::new(),
        })
    }

    /// Runs the plan to its end.
    ///
    /// # Errors
    /// If the file system or the operating system rejects a request.
    pub fn run_to_end(&mut self) -> io::Result<RunOutcome> {
        let client_count = u64::from(self.plan.setup.clients);
        let mut faults_of_init = self
            .plan
            .hits_genesis
            .then(|| FaultScheduler::new(&self.plan, 0));
        while self.context.ready_clients.load(Relaxed) < client_count
            && self.broken_rules.is_empty()
        {
            if let Some(faults) = &mut faults_of_init {
                let commands = faults.advance(&mut self.cluster)?;
                self.dispatch_commands(commands);
            }
            self.apply_operator_reports()?;
            self.run_turn();
            if self.cluster.now_ms > READY_TIMEOUT_MS {
                self.broken_rules
                    .push(String::from("live: the cluster did not come up"));
            }
        }
        let begin = self.cluster.now_ms;
        let mut faults = faults_of_init.unwrap_or_else(|| FaultScheduler::new(&self.plan, begin));
        let heal_at = begin + self.plan.heal_at_ms;
        while self.cluster.now_ms < heal_at && self.broken_rules.is_empty() {
            let commands = faults.advance(&mut self.cluster)?;
            self.dispatch_commands(commands);
            self.apply_operator_reports()?;
            self.run_turn();
        }
        if self.broken_rules.is_empty() {
            let commands = faults.end_all(&mut self.cluster)?;
            self.dispatch_commands(commands);
            self.judge_liveness()?;
        }
        Ok(self.collect_outcome())
    }

    /// Applies the actions of operators to the machines.
    pub(super) fn apply_operator_reports(&mut self) -> io::Result<()> {
        let reports = std::mem::take(&mut *self.context.reports.lock());
        for report in reports {
            match report {
                OperatorReport::StoreRemoved(id) => self.cluster.mark_removed(id),
                OperatorReport::StoreRejected(id) => self.cluster.discard_machine(id)?,
                OperatorReport::InitFailed => self.cluster.wipe_cluster(self.plan.setup.allocs)?,
            }
        }
        Ok(())
    }

    pub(super) fn dispatch_commands(&mut self, commands: Vec<OperatorCommand>) {
        for command in commands {
            match command {
                OperatorCommand::ShutDownAlloc(id) => {
                    let machine = &self.cluster.machines[&id];
                    if let (Some(alloc), Some(process)) =
                        (machine.running_alloc(), &machine.process)
                    {
                        process.spawn_task(async move { alloc.shutdown().await });
                    }
                }
                other => {
                    // The receiving client lives as long as the run.
                    let _ = self.commands.send(other);
                }
            }
        }
    }

    /// Runs one turn of the world: delivers segments that are due, gives each process a turn, and
    /// calls the judges.
    pub(super) fn run_turn(&mut self) {
        let tick = self.plan.setup.tick_ms;
        self.cluster.now_ms += tick;
        let now = self.cluster.now_ms;
        libc_shim::set_thread_time(Some(now * 1_000_000));
        self.context.set_now_ms(now);
        self.cluster.net.deliver_due(now);
        let mut machine_order: Vec<MachineId> = self.cluster.machines.keys().copied().collect();
        for at in (1..machine_order.len()).rev() {
            machine_order.swap(at, self.turn_order.next_below(at as u64 + 1) as usize);
        }
        for id in machine_order {
            let Some(machine) = self.cluster.machines.get_mut(&id) else {
                continue;
            };
            machine.clock.set_now_ms(now);
            if let Some(process) = &mut machine.process {
                process.run_until(now);
            }
        }
        sim::enter_process(0);
        if let Some(broken_rule) = self.context.answer_judge.lock().broken_rule.take() {
            self.broken_rules.push(format!("answer: {broken_rule}"));
        }
        if let Some(broken_rule) = self.context.take_broken_id_rule() {
            self.broken_rules.push(format!("ids: {broken_rule}"));
        }
        if (now / tick).is_multiple_of(TURNS_PER_LOOK) {
            let broken_rule = self.run_judges();
            self.broken_rules
                .extend(broken_rule.map(|broken_rule| format!("at {now}: {broken_rule}")));
        }
    }

    fn run_judges(&mut self) -> Option<String> {
        let cluster = &self.cluster;
        if self.judges_reset_at_ms != cluster.remade_at_ms {
            self.judges_reset_at_ms = cluster.remade_at_ms;
            (self.invariant_judge, self.rows_judge) = Default::default();
        }
        let is_bounded = self.plan.has_bounded_clocks;
        let broken_rule = self.invariant_judge.judge_servers(cluster, is_bounded);
        let broken_rule = broken_rule.or_else(|| self.rows_judge.judge_stores(cluster));
        let broken_rule = broken_rule.or_else(|| unexpected_stops::find_unexpected_stop(cluster));
        let broken_rule = broken_rule.map(|broken_rule| format!("invariant {broken_rule}"));
        let broken_rule = broken_rule.or_else(|| match self.plan.bounds_takeover {
            true => self.takeover_judge.judge_takeovers(cluster),
            false => None,
        });
        broken_rule.or_else(|| match self.plan.bounds_outages {
            true => self.session_judge.judge_sessions(cluster),
            false => None,
        })
    }

    fn collect_outcome(&mut self) -> RunOutcome {
        let calls = std::mem::take(&mut *self.context.calls.lock());
        if self.broken_rules.is_empty() && self.plan.has_bounded_clocks {
            match seqsvr_check::check_calls(&calls) {
                Ok(report) => {
                    let violations = report.violations.iter().take(3);
                    self.broken_rules
                        .extend(violations.map(|v| format!("check: {}", v.description)));
                }
                Err(e) => self.broken_rules.push(format!("check: {e}")),
            }
        }
        let end_state = match self.broken_rules.is_empty() {
            true => Vec::new(),
            false => failure_report::describe_end(&self.cluster, &self.context),
        };
        // End the processes before the disks and the network that they write to.
        let all: Vec<MachineId> = self.cluster.machines.keys().copied().collect();
        for id in all {
            self.cluster.net.power_off(id);
            let _ = self.cluster.end_process(id, true, RowsCrashEffect::Lose(0));
        }
        let (hash, event_count, last_events) = self
            .cluster
            .net
            .with_trace(|_, trace| (trace.hash(), trace.event_count(), trace.last_events()));
        RunOutcome {
            broken_rules: std::mem::take(&mut self.broken_rules),
            hash,
            event_count,
            call_count: calls.len() as u64,
            answered_calls: self.context.answered_calls.load(Relaxed),
            id_count: self.context.id_count(),
            simulated_ms: self.cluster.now_ms,
            end_state,
            last_events,
            ..RunOutcome::default()
        }
    }
}
