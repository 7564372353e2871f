//! How AllocSvr processes come and go with their sessions.
//!
//! Invariant: a process that is restarted with a proof has taken over the session of a process that
//! is dead.

use super::Protocol;
use super::guards::{count_action, require};
use crate::rules::Rule;
use crate::world::World;
use crate::world::action::SessionAction;
use crate::world::alloc_process::AllocProcess;
use crate::world::store_command::{SessionId, StoreCommand};

impl Protocol {
    /// Takes one step of a process and its session.
    pub(super) fn apply_session_action(
        &self,
        world: &mut World,
        process: usize,
        action: SessionAction,
    ) -> Option<()> {
        match action {
            SessionAction::LearnRoute => self.learn_route(world, process),
            SessionAction::OpenSession { proof } => self.open_session(world, process, proof),
            // Matters only if the reply grants a lease: otherwise it changes nothing.
            SessionAction::RetryOpenSession => {
                require(!self.rules.has(Rule::LeaseFromRenewalOnly))?;
                require(world.state.is_living(world.processes[process].session))?;
                world.processes[process].lease_age = 0;
                Some(())
            }
            SessionAction::CloseSession => self.close_session(world, process),
            SessionAction::Crash => self.crash_process(world, process),
        }
    }

    fn learn_route(&self, world: &mut World, process: usize) -> Option<()> {
        let process = &mut world.processes[process];
        require(process.up && world.state.slot.epoch > process.route.epoch)?;
        require(process.may_accept_from(world.state.cluster, self.rules))?;
        process.join_cluster(world.state.cluster);
        process.route = world.state.slot;
        Some(())
    }

    fn open_session(&self, world: &mut World, process: usize, proof: SessionId) -> Option<()> {
        let own = &world.processes[process];
        require(own.up && (own.session == 0 || !world.state.is_living(own.session)))?;
        if proof != 0 {
            // The process that runs with the session of that proof holds the lock, and so does the
            // process that was started from the same directory.
            let has_lock = |other: &AllocProcess| {
                other.up && (other.has_had_session(proof) || other.proof != 0)
            };
            let is_locked = world.processes.iter().any(has_lock);
            let rejects = is_locked && self.rules.has(Rule::ProofUnderLock);
            require(own.session == 0 && !rejects)?;
        }
        count_action(&mut world.spent.sessions, self.scenario.limits.sessions)?;
        let nonce = world.spent.sessions;
        let own = &mut world.processes[process];
        own.nonce = nonce;
        own.proof = proof;
        let request = StoreCommand::OpenSession {
            process: process as u8,
            nonce,
            proof,
        };
        self.send_request(world, process, request);
        Some(())
    }

    fn close_session(&self, world: &mut World, process: usize) -> Option<()> {
        let own = &world.processes[process];
        require(own.up && own.session != 0)?;
        require(!own.has_guards() || !self.rules.has(Rule::WaitForGuards))?;
        require(!own.has_opens() || !self.rules.has(Rule::StopWaitsForOpens))?;
        count_action(&mut world.spent.leaves, self.scenario.limits.leaves)?;
        let own = &mut world.processes[process];
        let request = StoreCommand::CloseSession {
            session: own.session,
            epoch: own.route.epoch,
            last: own.high_water_report(),
        };
        own.session = 0;
        own.seal_object();
        self.send_request(world, process, request);
        Some(())
    }

    fn crash_process(&self, world: &mut World, process: usize) -> Option<()> {
        require(world.processes[process].up)?;
        count_action(&mut world.spent.crashes, self.scenario.limits.crashes)?;
        let crashed = &mut world.processes[process];
        crashed.up = false;
        crashed.session = 0;
        crashed.object = None;
        crashed.older_object = None;
        crashed.calls.clear();
        Some(())
    }
}
