//! The protocol as a stateright model: its actions, and the promises that must hold.
//!
//! Invariant of the model: an action does only what some machine could do at that moment with what
//! that machine holds.

mod action_list;
mod calls;
pub(crate) mod guards;
mod initial_world;
mod leaders;
mod network;
mod renewals;
mod replies;
mod sections;
mod sessions;
mod stores;

use stateright::{Model, Property};

use crate::parameters::ClockBehavior;
use crate::rules::RuleSet;
use crate::rules::promise::Promise;
use crate::scenario::Scenario;
use crate::world::World;
use crate::world::action::{ProcessAction, WorldAction};

/// The protocol under some rules, within the bounds of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Protocol {
    /// The bounds.
    pub(crate) scenario: Scenario,
    /// The rules in force.
    pub(crate) rules: RuleSet,
}

impl Protocol {
    /// Judges whether all callers of a cluster received different numbers.
    fn is_unique(&self, world: &World) -> bool {
        !world.ledgers.has_any(|ledger| ledger.has_duplicate)
    }

    /// Judges the order of numbers. It is promised within the drift bound, and by strict mode
    /// always.
    fn is_monotonic(&self, world: &World) -> bool {
        let is_promised = self.scenario.clocks != ClockBehavior::Unbounded || self.scenario.strict;
        !is_promised || !world.ledgers.has_any(|ledger| ledger.has_disorder)
    }

    /// Judges max_seq after planned moves. It is judged where no unplanned ones happen.
    fn is_tight(&self, world: &World) -> bool {
        let is_judged = self.scenario.clocks == ClockBehavior::Stopped;
        !is_judged || !world.ledgers.has_any(|ledger| ledger.has_excess)
    }
}

impl Model for Protocol {
    type State = World;
    type Action = WorldAction;

    fn init_states(&self) -> Vec<World> {
        vec![initial_world::build_initial_world(&self.scenario)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<WorldAction>) {
        // A state that breaks a promise needs no successors.
        if self.is_unique(world) && self.is_monotonic(world) {
            self.list_actions(world, actions);
        }
    }

    fn next_state(&self, last: &World, action: WorldAction) -> Option<World> {
        let mut world = last.clone();
        match action {
            WorldAction::Tick => self.advance_time(&mut world),
            WorldAction::Leader(action) => self.apply_leader_action(&mut world, action),
            WorldAction::Renewal(action) => self.apply_renewal_action(&mut world, action),
            WorldAction::Stores(action) => self.apply_stores_action(&mut world, action),
            WorldAction::Network(action) => self.apply_network_action(&mut world, action),
            WorldAction::Process { process, action } => match action {
                ProcessAction::Session(action) => {
                    self.apply_session_action(&mut world, process, action)
                }
                ProcessAction::Section(action) => {
                    self.apply_section_action(&mut world, process, action)
                }
                ProcessAction::Call(action) => self.apply_call_action(&mut world, process, action),
            },
        }?;
        Some(world)
    }

    /// Without some rules a repeated message counts up without end.
    fn within_boundary(&self, world: &World) -> bool {
        let limits = &self.scenario.limits;
        let changes = limits.moves + limits.assigns + limits.sessions + self.scenario.nodes;
        world.state.section.generation <= limits.opens + 2 && world.state.slot.epoch <= changes + 2
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(Promise::Unique.name(), Self::is_unique),
            Property::always(Promise::Monotonic.name(), Self::is_monotonic),
            Property::always(Promise::Tight.name(), Self::is_tight),
        ];
        let situations = self.scenario.situations.iter();
        properties.extend(situations.map(|situation| situation.to_property()));
        properties
    }
}
