//! Scenarios: small bounds, each for one part of the protocol, and the situations that the checker
//! must find within them.

pub(crate) mod deep_scenarios;
pub(crate) mod situation;
pub(crate) mod table;

use situation::Situation;

use crate::parameters::ClockBehavior;
use crate::world::action_counts::ActionCounts;
use crate::world::alloc_process::CallOperation;
use crate::world::store_command::{SessionId, session_bit};

/// Bounds of one check.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// How clocks behave.
    pub(crate) clocks: ClockBehavior,
    /// Whether messages may be lost, repeated, late and out of order. Otherwise a request and its
    /// reply are one step.
    pub(crate) hostile_network: bool,
    /// AllocSvr processes.
    pub(crate) processes: u8,
    /// Number of processes that have a session at the start, with ids from 1 on.
    pub(crate) members: u8,
    /// Maps a process to the name under which it registers.
    pub(crate) name_of_process: fn(u8) -> u8,
    /// StoreSvr nodes with an arbiter and renewals. Without nodes, the stores act in one step.
    pub(crate) nodes: u8,
    /// Bits of sessions that are subject to time. The other sessions never expire.
    pub(crate) timed_sessions: u8,
    /// The newest term.
    pub(crate) terms: u8,
    /// Limits of actions in a whole run.
    pub(crate) limits: ActionCounts,
    /// Calls in flight in one process.
    pub(crate) calls_in_flight_max: usize,
    /// Renewals in flight of one process.
    pub(crate) renewals_in_flight_max: usize,
    /// Whether entering a section object and taking the number are two steps.
    pub(crate) takes_after_entering: bool,
    /// Whether a call enters, takes, is checked and answered in one step.
    pub(crate) answers_at_once: bool,
    /// What calls may request.
    pub(crate) operations: &'static [CallOperation],
    /// Whether the stores confirm the owner before each answer, instead of a check of the lease.
    pub(crate) strict: bool,
    /// Numbers that an Open or a Raise adds.
    pub(crate) step: u8,
    /// Whether no session owns the slot at the start.
    pub(crate) slot_free_at_start: bool,
    /// Whether the section was never opened before the start.
    pub(crate) section_unopened_at_start: bool,
    /// Situations that the checker must find.
    pub(crate) situations: &'static [Situation],
}

impl Scenario {
    /// Returns whether the session is subject to time.
    pub(crate) fn is_timed(&self, session: SessionId) -> bool {
        self.timed_sessions & session_bit(session) != 0
    }
}

/// A scenario in which little happens, from which the others differ.
const EMPTY_SCENARIO: Scenario = Scenario {
    name: "",
    clocks: ClockBehavior::Stopped,
    hostile_network: false,
    processes: 2,
    members: 2,
    name_of_process: |process| process,
    nodes: 0,
    timed_sessions: 0,
    terms: 1,
    limits: ActionCounts::NONE,
    calls_in_flight_max: 1,
    renewals_in_flight_max: 1,
    takes_after_entering: false,
    answers_at_once: false,
    operations: &[CallOperation::Next],
    strict: false,
    step: 1,
    slot_free_at_start: false,
    section_unopened_at_start: false,
    situations: &[],
};
