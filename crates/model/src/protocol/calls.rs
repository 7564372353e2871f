//! Calls: entering a section object, taking a number, the check, the answer.
//!
//! Invariant (design 5.4): a number is answered only after a check, later than the arrival of the
//! request, that the session and epoch of the section object are still the newest that this process
//! has received, and that its lease holds.
//!
//! The check and the answer are one step: an answer that arrives later only demands less of other
//! calls. For the same reason a request counts as begun when it enters.

use super::Protocol;
use super::guards::require;
use crate::parameters::{ClockBehavior, LEASE_TICKS};
use crate::rules::Rule;
use crate::world::World;
use crate::world::action::CallAction;
use crate::world::alloc_process::{AllocProcess, CallInFlight, CallOperation};
use crate::world::replicated_state::SlotState;

impl Protocol {
    /// Takes one step of a call.
    pub(super) fn apply_call_action(
        &self,
        world: &mut World,
        process: usize,
        action: CallAction,
    ) -> Option<()> {
        match action {
            CallAction::EnterSection { operation, cluster } => {
                self.enter_section(world, process, operation, cluster)?;
            }
            CallAction::TakeNumber { call } => self.take_number(world, process, call)?,
            CallAction::CheckBeforeArrival => self.check_before_arrival(world, process)?,
            CallAction::CheckBeforeTake { call } => {
                let is_removed = !self.rules.has(Rule::CheckAfterTake);
                let pending = world.processes[process].calls[call];
                require(is_removed && pending.number.is_none())?;
                require(self.may_answer(world, process, &pending))?;
                world.processes[process].calls[call].checked = true;
            }
            // The number was taken before the request that receives it arrived.
            CallAction::ArriveAfterTake { call } => {
                let late = &mut world.processes[process].calls[call];
                require(!self.rules.has(Rule::TakeAfterReceive) && late.number.is_some())?;
                late.floor = world.ledgers.of_cluster(late.cluster).highest_shown;
            }
            CallAction::AnswerCall { call } => self.answer_call(world, process, call)?,
            // A faster clock might fail the check sooner. For other calls that is as good as a call
            // that is never answered, and nothing obliges a process to answer.
            CallAction::DiscardNumber { call } => {
                let pending = world.processes[process].calls[call];
                require(pending.number.is_some())?;
                require(!self.may_answer(world, process, &pending))?;
                world.processes[process].calls.remove(call);
            }
        }
        Some(())
    }

    /// Lets a call of a caller of that cluster enter the published section object.
    fn enter_section(
        &self,
        world: &mut World,
        process: usize,
        operation: CallOperation,
        cluster: u8,
    ) -> Option<()> {
        let own = &mut world.processes[process];
        require(own.may_serve_caller_of(cluster, self.rules))?;
        let object = own.object?;
        require(own.calls.len() < self.scenario.calls_in_flight_max)?;
        let may_enter_sealed = match operation {
            CallOperation::Next => false,
            CallOperation::Current => true,
            CallOperation::RaiseTo => !self.rules.has(Rule::RaiseToInMemory),
        };
        require(!object.sealed || may_enter_sealed)?;
        let floor = world.ledgers.of_cluster(cluster).highest_shown;
        let entered = CallInFlight::new(operation, &object, floor, cluster);
        own.calls.push(entered);
        if self.scenario.takes_after_entering && operation == CallOperation::Next {
            return Some(());
        }
        let call = own.calls.len() - 1;
        self.take_number(world, process, call)?;
        if self.scenario.answers_at_once {
            self.answer_call(world, process, call)?;
        }
        Some(())
    }

    fn take_number(&self, world: &mut World, process: usize, call: usize) -> Option<()> {
        let own = &mut world.processes[process];
        let pending = own.calls[call];
        require(pending.number.is_none())?;
        let cluster = own.cluster;
        let object = own.object_of_generation(pending.generation)?;
        let number = match pending.operation {
            CallOperation::Next => {
                require(object.last < object.max)?;
                object.last += 1;
                object.last
            }
            CallOperation::Current => object.last,
            CallOperation::RaiseTo => {
                if self.rules.has(Rule::RaiseToInMemory) {
                    object.last = object.max;
                }
                object.max
            }
        };
        let ledger = world.ledgers.of_cluster_mut(cluster);
        ledger.highest_counter = ledger.highest_counter.max(object.last);
        own.calls[call].number = Some(number);
        let has_guard = |older| own.has_guard_in(older);
        if !own
            .older_object
            .is_some_and(|older| has_guard(older.generation))
        {
            own.older_object = None;
        }
        Some(())
    }

    /// Checks before any request arrives. Only a removed rule permits it.
    fn check_before_arrival(&self, world: &mut World, process: usize) -> Option<()> {
        let own = &world.processes[process];
        let object = own.object?;
        let early = CallInFlight::new(CallOperation::Next, &object, 0, own.cluster);
        let is_rejected =
            self.rules.has(Rule::CheckAfterReceive) && self.rules.has(Rule::StrictAfterArrival);
        require(!is_rejected && self.may_answer(world, process, &early))?;
        world.processes[process].early_check_passed = true;
        Some(())
    }

    fn answer_call(&self, world: &mut World, process: usize, call: usize) -> Option<()> {
        let own = &world.processes[process];
        let pending = own.calls[call];
        let number = pending.number?;
        let is_checked = own.early_check_passed || pending.checked;
        require(is_checked || self.may_answer(world, process, &pending))?;
        world.processes[process].calls.remove(call);
        let ledger = world.ledgers.of_cluster_mut(pending.cluster);
        match pending.operation {
            CallOperation::Next => ledger.record_number(number, pending.floor),
            CallOperation::Current => ledger.has_disorder |= number < pending.floor,
            CallOperation::RaiseTo => {}
        }
        ledger.highest_shown = ledger.highest_shown.max(number);
        Some(())
    }

    /// Returns whether the check of design 5.4 passes, or in strict mode the confirmation of 5.9.
    fn may_answer(&self, world: &World, process: usize, call: &CallInFlight) -> bool {
        let own = &world.processes[process];
        if self.scenario.strict {
            return self.is_confirmed(world, own, call);
        }
        let is_timed =
            self.scenario.clocks == ClockBehavior::Bounded && self.scenario.is_timed(own.session);
        if is_timed && own.lease_age >= LEASE_TICKS && self.rules.has(Rule::CheckLease) {
            return false;
        }
        if call.operation == CallOperation::Current && self.rules.has(Rule::CurrentWhileServed) {
            let is_served = own
                .object
                .is_some_and(|object| !object.sealed && object.generation == call.generation);
            if !is_served {
                return false;
            }
        }
        if !self.rules.has(Rule::CheckObject) {
            return own.is_slot_owner();
        }
        let any_session = own.session != 0 && !self.rules.has(Rule::CheckSession);
        let any_epoch = !self.rules.has(Rule::CheckEpoch);
        (call.session == own.session || any_session) && (call.epoch == own.route.epoch || any_epoch)
    }

    /// Returns whether the stores confirm the owner of the slot, as strict mode demands.
    fn is_confirmed(&self, world: &World, own: &AllocProcess, call: &CallInFlight) -> bool {
        let owner = if self.rules.has(Rule::StrictObject) {
            SlotState {
                epoch: call.epoch,
                owner: call.session,
            }
        } else {
            SlotState {
                epoch: own.route.epoch,
                owner: own.session,
            }
        };
        world.state.is_owner(owner.owner, owner.epoch)
    }
}
