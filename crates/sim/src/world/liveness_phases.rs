//! After all faults have ended, everything must work again within bounds and stay calm.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::ids::SectionKey;
use seqsvr_core::state::State;

use super::SimWorld;
use crate::clients::UIDS_PER_SECTION;
use crate::cluster::machine_name;
use crate::faults::{OperatorCommand, restart_ended_allocs};
use crate::judges::liveness::{
    calm_call_max_ms, find_skipped_numbers, find_unsettled, has_steady_leader,
};
use crate::machine::SimMachine;
use crate::plan::FaultKind;

/// Length of the calm phase, ms.
const CALM_PHASE_MS: u64 = 3_000;
/// Maximum time until nothing waits and all stores have applied the same entries, ms. Above it,
/// the run fails.
const SETTLE_TIMEOUT_MS: u64 = 5_000;
/// Time added to [`SETTLE_TIMEOUT_MS`] for each sequence, ms.
const SETTLE_TIMEOUT_PER_KEY_MS: u64 = 200;
/// Maximum time until there are a cluster and its leader, ms. Above it, the run fails. An operator
/// that cannot finish a cluster within 15 s begins again with empty disks.
const INIT_TIMEOUT_MS: u64 = 40_000;
/// Maximum time until an end of a connection detects that the network discards what it sends, ms:
/// twice 3 s without a frame and 3 s without an answer to its ping, because the other end may send
/// one more answer and one more ping.
const DISCARD_DETECTION_MAX_MS: u64 = 12_000;
/// Maximum time in which a holder that was started again acquires a worker, ms. Above it, the run
/// fails.
const HOLDER_PAUSE_MAX_MS: u64 = 2_000;
/// Maximum time in which AllocSvrs close all sections and end, ms. Above it, the run fails.
const CLOSE_TIMEOUT_MS: u64 = 20_000;

impl SimWorld {
    /// Judges the cluster after all faults have ended.
    ///
    /// # Errors
    /// If the operating system provides no runtime.
    pub(super) fn judge_liveness(&mut self) -> io::Result<()> {
        // An operator may still be initializing another cluster.
        let is_initialized =
            |world: &SimWorld| world.has_leader_state(|state| state.cluster().is_some());
        if !self.run_turns_until(INIT_TIMEOUT_MS, is_initialized)? && self.broken_rules.is_empty() {
            let stores = self
                .cluster
                .machines
                .values()
                .filter_map(SimMachine::running_store);
            let views: Vec<_> = stores.map(|store| store.look()).collect();
            self.broken_rules
                .push(format!("live: no cluster was made: {views:?}"));
        }
        let setup = &self.plan.setup;
        let takeover_wait_ms = setup.lease_ms * 5 / 4;
        // Elections, takeovers, and calls that wait for their deadline of 5 s.
        let elections = 12 * 4 * setup.heartbeat_ms;
        let takeover_ms = 2 * takeover_wait_ms + 2 * setup.lease_ms + 10_000 + elections;
        let begin_ms = self.cluster.now_ms;
        let tick = setup.tick_ms;
        let load_ms = (takeover_ms / 2 + self.discard_detection_ms()) / tick * tick;
        self.context
            .stop_calls_at_ms
            .store(begin_ms + load_ms, Relaxed);
        self.context.may_begin_last_round.store(true, Relaxed);
        let client_count = u64::from(self.plan.setup.clients);
        // The last round makes some calls for each key.
        let deadline = begin_ms + load_ms + 3 * takeover_ms / 2 + 200 * self.plan.load.keys;
        while self.context.finished_clients.load(Relaxed) < client_count
            && self.broken_rules.is_empty()
        {
            self.run_calm_turn()?;
            if self.cluster.now_ms == begin_ms + load_ms {
                self.broken_rules.extend(self.find_alloc_without_session());
                self.broken_rules.extend(self.find_holder_without_ids());
            }
            if self.cluster.now_ms > deadline {
                let unfinished_clients = client_count - self.context.finished_clients.load(Relaxed);
                self.broken_rules.push(format!(
                    "live: {unfinished_clients} clients have no answer to some calls at {}",
                    self.cluster.now_ms
                ));
            }
        }
        self.judge_calm_phase()?;
        self.judge_drain()?;
        self.judge_graceful_shutdown()
    }

    /// Returns how much longer connections with a discarded direction may live, ms: their ends ping
    /// each other.
    fn discard_detection_ms(&self) -> u64 {
        let discard_faults = self.plan.faults.iter().filter(|f| f.kind == FaultKind::Eat);
        let last = discard_faults
            .map(|fault| fault.at_ms + DISCARD_DETECTION_MAX_MS)
            .max();
        last.unwrap_or(0).saturating_sub(self.plan.heal_at_ms)
    }

    /// Returns the rule that a holder without ids breaks: there are workers for all.
    fn find_holder_without_ids(&self) -> Option<String> {
        let family = self.plan.setup.family?;
        let since_ms = self.cluster.now_ms - HOLDER_PAUSE_MAX_MS;
        let has_workers = family.worker_bits > 2 && has_steady_leader(&self.plan.setup);
        let mut holders = self.cluster.holders_in_use().into_iter();
        let holder = holders.find(|id| !self.context.has_ids_since(*id, since_ms))?;
        has_workers.then(|| format!("live: {} makes no ids", machine_name(holder)))
    }

    fn run_calm_turn(&mut self) -> io::Result<()> {
        self.apply_operator_reports()?;
        restart_ended_allocs(&mut self.cluster)?;
        self.run_turn();
        Ok(())
    }

    /// Runs turns until a condition holds. Returns whether it held within `ms`.
    fn run_turns_until(
        &mut self,
        ms: u64,
        is_done: impl Fn(&SimWorld) -> bool,
    ) -> io::Result<bool> {
        let deadline = self.cluster.now_ms + ms;
        while !is_done(self) {
            if self.cluster.now_ms > deadline || !self.broken_rules.is_empty() {
                return Ok(false);
            }
            self.run_calm_turn()?;
        }
        Ok(true)
    }

    /// Judges the calm phase: no call fails or is slow, the leader stays, and everything settles.
    fn judge_calm_phase(&mut self) -> io::Result<()> {
        let find_term = |world: &SimWorld| {
            let leader = world.cluster.find_leader();
            let machine = leader.and_then(|id| world.cluster.machines.get(&id));
            let store = machine.and_then(|machine| machine.running_store());
            store.map(|store| store.look().term)
        };
        let term_before = find_term(self);
        let max_ms = calm_call_max_ms(&self.plan.setup);
        self.context
            .begin_calm_phase(self.cluster.now_ms + CALM_PHASE_MS, max_ms);
        self.run_turns_until(CALM_PHASE_MS, |_| false)?;
        let is_steady = has_steady_leader(&self.plan.setup);
        if self.broken_rules.is_empty() && is_steady && find_term(self) != term_before {
            let text = format!("live: the leader of {term_before:?} changed in the calm phase");
            self.broken_rules.push(text);
        }
        let clients = u64::from(self.plan.setup.clients);
        let is_settled = |world: &SimWorld| {
            world.context.calm_clients.load(Relaxed) == clients
                && find_unsettled(&world.cluster).is_none()
        };
        let settle_ms = SETTLE_TIMEOUT_MS + SETTLE_TIMEOUT_PER_KEY_MS * self.plan.load.keys;
        if !self.run_turns_until(settle_ms, is_settled)? && self.broken_rules.is_empty() {
            let what = find_unsettled(&self.cluster);
            let what = what.unwrap_or_else(|| String::from("a client has not all answers"));
            self.broken_rules.push(format!("live: not settled: {what}"));
        }
        Ok(())
    }

    /// Drains the AllocSvr with most slots: nothing may remain of its windows.
    fn judge_drain(&mut self) -> io::Result<()> {
        let (true, Some(owner)) = (
            self.can_judge_planned_ends(),
            self.cluster.find_largest_owner(),
        ) else {
            return Ok(());
        };
        let drained_alloc = self
            .cluster
            .machines
            .get(&owner)
            .and_then(SimMachine::running_alloc);
        let Some(alloc_view) = drained_alloc.map(|alloc| alloc.look()) else {
            return Ok(());
        };
        let Some(session) = alloc_view.session.map(|session| session.id) else {
            return Ok(());
        };
        let moved: BTreeSet<SectionKey> = alloc_view.sections.iter().map(|s| s.key).collect();
        // The cancellation of an earlier drain may have failed.
        let other_allocs = self
            .cluster
            .allocs_in_use()
            .into_iter()
            .filter(|id| *id != owner);
        let mut commands: Vec<OperatorCommand> = other_allocs
            .map(|id| OperatorCommand::DrainAlloc {
                name: machine_name(id),
                cancels: true,
            })
            .collect();
        commands.push(OperatorCommand::DrainAlloc {
            name: machine_name(owner),
            cancels: false,
        });
        self.dispatch_commands(commands);
        let is_drained = |world: &SimWorld| {
            world.has_leader_state(|state| {
                state.slots().iter().all(|slot| slot.owner != Some(session))
            })
        };
        if !self.run_turns_until(CLOSE_TIMEOUT_MS, is_drained)? && self.broken_rules.is_empty() {
            self.broken_rules
                .push(format!("live: {} was not drained", machine_name(owner)));
        }
        self.judge_planned_ends(|key| moved.contains(&key));
        Ok(())
    }

    /// Shuts all AllocSvrs down in order: nothing may remain of any window.
    fn judge_graceful_shutdown(&mut self) -> io::Result<()> {
        if !self.can_judge_planned_ends() {
            return Ok(());
        }
        let allocs = self.cluster.allocs_in_use();
        self.dispatch_commands(
            allocs
                .into_iter()
                .map(OperatorCommand::ShutDownAlloc)
                .collect(),
        );
        let is_closed = |world: &SimWorld| {
            world.has_leader_state(|state| {
                state.sessions().count() == 0 && !state.sections().any(|(_, row)| row.open)
            })
        };
        if !self.run_turns_until(CLOSE_TIMEOUT_MS, is_closed)? && self.broken_rules.is_empty() {
            let text = "live: AllocSvrs that were shut down left sessions or open sections";
            self.broken_rules.push(String::from(text));
        }
        self.judge_planned_ends(|_| true);
        Ok(())
    }

    /// Returns whether there is a leader and its state fulfills a condition.
    fn has_leader_state(&self, condition: impl Fn(&State) -> bool) -> bool {
        let leader = self.cluster.find_leader();
        let store = leader.and_then(|id| self.cluster.machines.get(&id)?.running_store());
        store.is_some_and(|store| store.with_state(condition))
    }

    /// Returns whether planned ends of generations are judged: no call is in flight any more, and
    /// no clock beyond its bounds ended a lease.
    fn can_judge_planned_ends(&self) -> bool {
        self.broken_rules.is_empty() && self.plan.has_bounded_clocks
    }

    fn judge_planned_ends(&mut self, is_judged: impl Fn(SectionKey) -> bool) {
        if !self.broken_rules.is_empty() {
            return;
        }
        let online = self.context.answer_judge.lock();
        let cluster = self.context.last_cluster_tag.load(Relaxed);
        let highest = |uid| online.highest_received((cluster, uid));
        let skipped = find_skipped_numbers(
            &self.cluster,
            is_judged,
            u64::from(UIDS_PER_SECTION),
            highest,
        );
        drop(online);
        self.broken_rules
            .extend(skipped.map(|skipped| format!("invariant {skipped}")));
    }

    /// Returns the rule that an AllocSvr without a session breaks.
    ///
    /// Also under load, an AllocSvr that was restarted gets a session in the end. Without a steady
    /// leader its earlier session may outlive any bound, because each new leader waits W again.
    fn find_alloc_without_session(&self) -> Option<String> {
        if !has_steady_leader(&self.plan.setup) {
            return None;
        }
        let allocs = self.cluster.allocs_in_use();
        let mut machines = allocs.iter().filter_map(|id| self.cluster.machines.get(id));
        let machine_without_session = machines.find(|machine| {
            let alloc = machine.running_alloc();
            alloc.is_none_or(|alloc| alloc.look().session.is_none())
        })?;
        Some(format!(
            "live: {} has no session",
            machine_name(machine_without_session.id)
        ))
    }
}
