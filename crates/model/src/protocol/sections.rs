//! What an owner does with its section: Open, Raise, CloseSection, MoveSlot.
//!
//! Invariant: a section object hands out only numbers of the window of its own generation, and no
//! number after the owner has reported a high-water mark for it.

use super::Protocol;
use super::guards::{count_action, require};
use crate::rules::Rule;
use crate::world::World;
use crate::world::action::SectionAction;
use crate::world::alloc_process::SectionObject;
use crate::world::store_command::{HighWaterReport, SessionId, StoreCommand};

impl Protocol {
    /// Takes one step of an owner and its section.
    pub(super) fn apply_section_action(
        &self,
        world: &mut World,
        process: usize,
        action: SectionAction,
    ) -> Option<()> {
        match action {
            SectionAction::OpenSection => self.open_section(world, process),
            SectionAction::RaiseSection => self.raise_section(world, process),
            SectionAction::CloseSection => self.close_section(world, process),
            SectionAction::UnsealSection => self.unseal_section(world, process),
            SectionAction::MoveSlot { to } => self.move_slot(world, process, to),
        }
    }

    fn open_section(&self, world: &mut World, process: usize) -> Option<()> {
        let own = &world.processes[process];
        require(own.up && own.is_slot_owner() && !own.has_stopped_slot())?;
        let expected = world.state.section.generation;
        let is_served = own.object.is_some_and(|object| {
            !object.sealed && object.epoch == own.route.epoch && object.generation == expected
        });
        require(!is_served)?;
        count_action(&mut world.spent.opens, self.scenario.limits.opens)?;
        let nonce = world.spent.opens;
        let own = &mut world.processes[process];
        own.begin_open(nonce);
        let request = StoreCommand::Open {
            session: own.session,
            epoch: own.route.epoch,
            expected,
            nonce,
        };
        self.send_request(world, process, request);
        Some(())
    }

    fn raise_section(&self, world: &mut World, process: usize) -> Option<()> {
        let object = world.processes[process].object?;
        require(!object.sealed)?;
        count_action(&mut world.spent.raises, self.scenario.limits.raises)?;
        let request = StoreCommand::Raise {
            session: object.session,
            epoch: object.epoch,
            generation: object.generation,
            to: object.max + self.scenario.step,
        };
        self.send_request(world, process, request);
        Some(())
    }

    fn close_section(&self, world: &mut World, process: usize) -> Option<()> {
        let own = &mut world.processes[process];
        let object = own.object?;
        let must_wait = own.has_guard_in(object.generation) && self.rules.has(Rule::WaitForGuards);
        require(!object.sealed && !must_wait)?;
        count_action(&mut world.spent.closes, self.scenario.limits.closes)?;
        if self.rules.has(Rule::RememberGeneration) {
            own.seal_object();
        } else {
            own.object = None;
            own.highest_installed = 0;
        }
        let request = StoreCommand::CloseSection {
            session: object.session,
            epoch: object.epoch,
            last: HighWaterReport {
                generation: object.generation,
                highest: object.last,
            },
        };
        self.send_request(world, process, request);
        Some(())
    }

    /// Serves again what was closed or stopped. Only a removed rule permits it.
    fn unseal_section(&self, world: &mut World, process: usize) -> Option<()> {
        let own = &mut world.processes[process];
        let object = own.object.filter(|object| object.sealed)?;
        let rule = if own.stopped_epoch == object.epoch {
            Rule::StoppedStays
        } else {
            Rule::ClosedIsDead
        };
        require(!self.rules.has(rule))?;
        own.object = Some(SectionObject {
            sealed: false,
            ..object
        });
        own.stopped_epoch = 0;
        Some(())
    }

    fn move_slot(&self, world: &mut World, process: usize, to: SessionId) -> Option<()> {
        let own = &mut world.processes[process];
        require(own.up && own.is_slot_owner())?;
        require(!own.has_guards() || !self.rules.has(Rule::WaitForGuards))?;
        require(!own.has_opens() || !self.rules.has(Rule::StopWaitsForOpens))?;
        count_action(&mut world.spent.moves, self.scenario.limits.moves)?;
        let is_sealed = own.object.is_some_and(|object| object.sealed);
        let is_closed = is_sealed && !own.has_stopped_slot();
        let mut last = own.high_water_report();
        if is_closed && !self.rules.has(Rule::MoveRepeatsMarks) {
            last.generation = 0;
        }
        let request = StoreCommand::MoveSlot {
            session: own.session,
            epoch: own.route.epoch,
            last,
            to,
        };
        if self.rules.has(Rule::StopSeals) {
            own.stopped_epoch = own.route.epoch;
            own.seal_object();
        }
        self.send_request(world, process, request);
        Some(())
    }
}
