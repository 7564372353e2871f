//! The rules of grants as a stateright model: its actions, and the promises that must hold.
//!
//! Invariant of the model: an action does only what some machine could do at that moment with what
//! that machine holds.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use super::grant_action::GrantAction;
use super::grant_action_counts::GrantActionCounts;
use super::grant_holder::GrantHolder;
use super::grant_scenario::GrantScenario;
use super::grant_world::GrantWorld;
use super::id_ledger::{IdLedger, UsedTick};
use super::message::{GrantCommand, HolderReply, HolderRequest};
use super::replicated_workers::{GrantContext, ReplicatedWorkers, WorkerRecord};
use crate::protocol::guards::{count_action, require};
use crate::rules::RuleSet;
use crate::rules::promise::Promise;

/// The rules of grants, or some of them, within the bounds of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct GrantProtocol {
    /// The bounds.
    pub(crate) scenario: GrantScenario,
    /// The rules in force.
    pub(crate) rules: RuleSet,
}

impl GrantProtocol {
    /// Adds what leaders and operators may do. A leader reads any time, and a deposed one may have
    /// read it before a SetTime.
    fn list_commits(&self, world: &GrantWorld, actions: &mut Vec<GrantAction>) {
        let (state, last) = (&world.state, self.scenario.family.last_tick);
        let mut list = |command| actions.push(GrantAction::Commit(command));
        for resets in 0..=state.resets {
            (0..=last).for_each(|now| list(GrantCommand::Time { now, resets }));
        }
        (0..state.now).for_each(|now| list(GrantCommand::SetTime { now }));
        (state.floor + 1..=last).for_each(|floor| list(GrantCommand::RaiseFloor { floor }));
        for (worker, row) in state.rows.iter().enumerate() {
            let epoch = row.epoch;
            list(GrantCommand::Revoke { worker, epoch });
        }
    }

    /// Adds what a holder may do.
    fn list_holder_actions(
        &self,
        world: &GrantWorld,
        holder: usize,
        actions: &mut Vec<GrantAction>,
    ) {
        let mut send = |command| actions.push(GrantAction::Send(HolderRequest { holder, command }));
        // Holders are alike: the next one that begins is the one with the next number.
        if holder <= usize::from(world.spent.acquisitions) {
            send(GrantCommand::Acquire {
                holder: holder as u8,
                nonce: world.spent.acquisitions + 1,
                claimed: self.scenario.claims_worker.then_some(0),
            });
        }
        for (worker, grant) in world.holders[holder].grants.iter().enumerate() {
            let Some(grant) = grant else { continue };
            let (epoch, used) = (grant.epoch, grant.next);
            send(GrantCommand::Renew { worker, epoch });
            send(GrantCommand::Release {
                worker,
                epoch,
                used,
            });
        }
        // What was used matters beyond the ids that are recorded only if it is reported.
        let may_report = world.spent.releases < self.scenario.limits.releases;
        for (worker, grant) in world.holders[holder].grants.iter().enumerate() {
            for tick in grant.map_or(0..0, |grant| grant.next..grant.until) {
                for is_recorded in [true, false] {
                    let is_full = world.ledger.ids.len() == IdLedger::IDS_MAX;
                    if is_recorded && !is_full || !is_recorded && may_report {
                        actions.push(GrantAction::UseTick {
                            holder,
                            worker,
                            tick,
                            is_recorded,
                        });
                    }
                }
            }
        }
    }

    /// Commits a command and judges what it changed. Returns the reply of the leader.
    fn commit(
        &self,
        world: &mut GrantWorld,
        command: GrantCommand,
        holder: usize,
    ) -> Option<HolderReply> {
        let context = GrantContext {
            rules: self.rules,
            family: &self.scenario.family,
        };
        let before = world.state.clone();
        let reply = world.state.apply(command, context);
        let (ledger, family) = (&mut world.ledger, &self.scenario.family);
        ledger.judge_command(command, &before, &world.state, family);
        reply.map(|reply| HolderReply { holder, reply })
    }

    /// Sends a request. Unless the network is hostile, the call is one step.
    fn send_request(&self, world: &mut GrantWorld, request: HolderRequest) -> Option<()> {
        if self.scenario.hostile_network {
            return world.requests.insert(request).then_some(());
        }
        if let Some(reply) = self.commit(world, request.command, request.holder) {
            self.receive_reply(world, reply);
        }
        Some(())
    }

    fn receive_reply(&self, world: &mut GrantWorld, reply: HolderReply) {
        world.holders[reply.holder].receive_reply(reply.reply, self.rules);
    }

    fn use_tick(
        &self,
        world: &mut GrantWorld,
        used: (usize, usize, u8),
        is_recorded: bool,
    ) -> Option<()> {
        let (holder, worker, tick) = used;
        let grant = world.holders[holder].grants[worker].as_mut()?;
        grant.next = tick + 1;
        let id = UsedTick {
            holder,
            worker,
            lane: grant.lane,
            epoch: grant.epoch,
            tick,
        };
        if is_recorded {
            world.ledger.record_id(id);
        }
        Some(())
    }

    /// Counts a limited action. Returns `None` if as many as the scenario permits have happened.
    fn count_command(&self, spent: &mut GrantActionCounts, command: GrantCommand) -> Option<()> {
        let limits = &self.scenario.limits;
        let (count, limit) = match command {
            GrantCommand::Time { .. } => return Some(()),
            GrantCommand::SetTime { .. } => (&mut spent.set_backs, limits.set_backs),
            GrantCommand::RaiseFloor { .. } => (&mut spent.floor_raises, limits.floor_raises),
            GrantCommand::Revoke { .. } => (&mut spent.revocations, limits.revocations),
            GrantCommand::Acquire { .. } => (&mut spent.acquisitions, limits.acquisitions),
            GrantCommand::Renew { .. } => (&mut spent.renewals, limits.renewals),
            GrantCommand::Release { .. } => (&mut spent.releases, limits.releases),
        };
        count_action(count, limit)
    }
}

impl Model for GrantProtocol {
    type State = GrantWorld;
    type Action = GrantAction;

    fn init_states(&self) -> Vec<GrantWorld> {
        let scenario = &self.scenario;
        vec![GrantWorld {
            state: ReplicatedWorkers {
                now: 0,
                resets: 0,
                floor: 0,
                rows: vec![WorkerRecord::default(); scenario.family.workers],
            },
            holders: vec![GrantHolder::default(); scenario.holders],
            requests: BTreeSet::new(),
            replies: BTreeSet::new(),
            ledger: IdLedger::default(),
            spent: GrantActionCounts::NONE,
        }]
    }

    fn actions(&self, world: &GrantWorld, actions: &mut Vec<GrantAction>) {
        // A state that breaks a promise needs no successors.
        if world.ledger.broken.is_some() {
            return;
        }
        self.list_commits(world, actions);
        actions.extend(
            world
                .requests
                .iter()
                .copied()
                .map(GrantAction::DeliverRequest),
        );
        actions.extend(world.replies.iter().copied().map(GrantAction::DeliverReply));
        for holder in 0..world.holders.len() {
            self.list_holder_actions(world, holder, actions);
        }
    }

    fn next_state(&self, last: &GrantWorld, action: GrantAction) -> Option<GrantWorld> {
        let mut world = last.clone();
        match action {
            GrantAction::Commit(command) => {
                self.count_command(&mut world.spent, command)?;
                self.commit(&mut world, command, 0);
                require(world.state != last.state || world.ledger != last.ledger)?;
            }
            GrantAction::DeliverRequest(request) => {
                let reply = self.commit(&mut world, request.command, request.holder);
                world.replies.extend(reply);
            }
            GrantAction::DeliverReply(reply) => self.receive_reply(&mut world, reply),
            GrantAction::Send(request) => {
                self.count_command(&mut world.spent, request.command)?;
                if let GrantCommand::Release { worker, .. } = request.command {
                    world.holders[request.holder].seal_grant(worker, self.rules);
                }
                self.send_request(&mut world, request)?;
            }
            GrantAction::UseTick {
                holder,
                worker,
                tick,
                is_recorded,
            } => self.use_tick(&mut world, (holder, worker, tick), is_recorded)?,
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! keep {
            ($($promise:ident)*) => {
                vec![$(Property::always(Promise::$promise.name(), |_, world: &GrantWorld| {
                    world.ledger.broken != Some(Promise::$promise)
                })),*]
            };
        }
        let mut properties = keep![Unique Monotonic Near Forward Floor End Once Single];
        let situations = self.scenario.situations.iter();
        properties.extend(situations.map(|situation| situation.to_property()));
        properties
    }
}
