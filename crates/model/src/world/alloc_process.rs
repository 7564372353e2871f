//! AllocSvr processes: what they hold in memory.
//!
//! Invariant: a process holds only what it learned from a reply or a route that named a session, an
//! epoch or a generation. It takes nothing from [`ReplicatedState`] but what a leader could have
//! sent it at that moment.

use crate::parameters::LEASE_TICKS;
use crate::rules::{Rule, RuleSet};
use crate::world::replicated_state::{ReplicatedState, SlotState};
use crate::world::store_command::{HighWaterReport, SessionId, session_bit};

/// Operation that a call requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CallOperation {
    /// The next number.
    Next,
    /// The last number, exactly.
    Current,
    /// To raise the counter to the end of the window, which the store raised before.
    RaiseTo,
}

/// A section object: the window of one generation in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SectionObject {
    /// The session that it belongs to.
    pub(crate) session: SessionId,
    /// The epoch that it belongs to.
    pub(crate) epoch: u8,
    /// Its generation.
    pub(crate) generation: u8,
    /// The last number taken.
    pub(crate) last: u8,
    /// The end of the window.
    pub(crate) max: u8,
    /// Whether no call may enter any more.
    pub(crate) sealed: bool,
}

/// A call in flight. Without a number it is a section guard inside its section object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallInFlight {
    /// What it requests.
    pub(crate) operation: CallOperation,
    /// The session of its section object.
    pub(crate) session: SessionId,
    /// The epoch of its section object.
    pub(crate) epoch: u8,
    /// The generation of its section object.
    pub(crate) generation: u8,
    /// The greatest value shown by calls that were answered before this one began.
    pub(crate) floor: u8,
    /// The number taken, or the value read.
    pub(crate) number: Option<u8>,
    /// Whether a check passed before the number was taken. Only a removed rule uses it.
    pub(crate) checked: bool,
    /// The cluster of the caller.
    pub(crate) cluster: u8,
}

impl CallInFlight {
    /// Creates a call of a caller of `cluster` that enters a section object.
    pub(crate) fn new(
        operation: CallOperation,
        object: &SectionObject,
        floor: u8,
        cluster: u8,
    ) -> Self {
        CallInFlight {
            operation,
            session: object.session,
            epoch: object.epoch,
            generation: object.generation,
            floor,
            number: None,
            checked: false,
            cluster,
        }
    }
}

/// One AllocSvr process. A restart is another process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AllocProcess {
    /// Whether it runs. It may also be paused: nothing obliges it to take a step.
    pub(crate) up: bool,
    /// The cluster that it belongs to; 0 is none yet.
    pub(crate) cluster: u8,
    /// Its session, in its own view; 0 is none.
    pub(crate) session: SessionId,
    /// Bits of all sessions that it ever had.
    sessions: u8,
    /// Nonce of its newest OpenSession.
    pub(crate) nonce: u8,
    /// The proof sent with its newest OpenSession.
    pub(crate) proof: SessionId,
    /// Ticks since t0 of the newest renewal, up to D, when the lease is over.
    pub(crate) lease_age: u8,
    /// The newest route that it received.
    pub(crate) route: SlotState,
    /// The epoch at which it stopped the slot; 0 is none.
    pub(crate) stopped_epoch: u8,
    /// Bits of nonces of Opens in flight.
    opens: u16,
    /// The highest generation that it installed.
    pub(crate) highest_installed: u8,
    /// The published section object.
    pub(crate) object: Option<SectionObject>,
    /// The section object before the published one, while a section guard is inside.
    pub(crate) older_object: Option<SectionObject>,
    /// Calls in flight.
    pub(crate) calls: Vec<CallInFlight>,
    /// Whether an earlier check passed. Only a removed rule uses it.
    pub(crate) early_check_passed: bool,
}

impl AllocProcess {
    /// Creates a process. A member has a session at the start. If the slot is served at the start,
    /// the first process serves it.
    pub(crate) fn new(
        process: u8,
        is_member: bool,
        is_served: bool,
        state: &ReplicatedState,
    ) -> Self {
        let session = if is_member { process + 1 } else { 0 };
        let is_owner = is_served && process == 0;
        AllocProcess {
            up: true,
            cluster: state.cluster,
            session,
            sessions: if is_member { session_bit(session) } else { 0 },
            nonce: if is_member { 100 + session } else { 0 },
            proof: 0,
            lease_age: if is_owner { 0 } else { LEASE_TICKS },
            route: state.slot,
            stopped_epoch: 0,
            opens: 0,
            highest_installed: is_owner.into(),
            object: is_owner.then_some(SectionObject {
                session,
                epoch: 1,
                generation: 1,
                last: 0,
                max: state.section.max,
                sealed: false,
            }),
            older_object: None,
            calls: Vec::new(),
            early_check_passed: false,
        }
    }

    /// Returns whether the session is or was its own.
    pub(crate) fn has_had_session(&self, session: SessionId) -> bool {
        self.sessions & session_bit(session) != 0
    }

    /// Takes a new session.
    pub(crate) fn begin_session(&mut self, session: SessionId) {
        self.session = session;
        self.sessions |= session_bit(session);
    }

    /// Returns whether it owns the slot, in its own view.
    pub(crate) fn is_slot_owner(&self) -> bool {
        self.session != 0 && self.route.owner == self.session
    }

    /// Returns whether it has stopped the slot at the epoch of its route.
    pub(crate) fn has_stopped_slot(&self) -> bool {
        self.stopped_epoch == self.route.epoch
    }

    /// Notes that an Open with this nonce is in flight.
    pub(crate) fn begin_open(&mut self, nonce: u8) {
        self.opens |= 1 << nonce;
    }

    /// Notes that the Open with this nonce was answered.
    pub(crate) fn end_open(&mut self, nonce: u8) {
        self.opens &= !(1 << nonce);
    }

    /// Returns whether an Open is in flight.
    pub(crate) fn has_opens(&self) -> bool {
        self.opens != 0
    }

    /// Returns the section object of a generation.
    pub(crate) fn object_of_generation(&mut self, generation: u8) -> Option<&mut SectionObject> {
        let objects = self.object.iter_mut().chain(self.older_object.iter_mut());
        objects
            .into_iter()
            .find(|object| object.generation == generation)
    }

    /// Seals the published section object.
    pub(crate) fn seal_object(&mut self) {
        if let Some(object) = &mut self.object {
            object.sealed = true;
        }
    }

    /// Returns whether a section guard is inside any section object.
    pub(crate) fn has_guards(&self) -> bool {
        self.calls.iter().any(|call| call.number.is_none())
    }

    /// Returns whether a section guard is inside the section object of a generation.
    pub(crate) fn has_guard_in(&self, generation: u8) -> bool {
        let is_inside =
            |call: &CallInFlight| call.number.is_none() && call.generation == generation;
        self.calls.iter().any(is_inside)
    }

    /// Returns the high-water mark of the published object, if that belongs to the session and
    /// epoch that the process has in its own view.
    pub(crate) fn high_water_report(&self) -> HighWaterReport {
        let fence = (self.session, self.route.epoch);
        let own = self
            .object
            .filter(|object| (object.session, object.epoch) == fence);
        own.map_or(HighWaterReport::NOTHING, |object| HighWaterReport {
            generation: object.generation,
            highest: object.last,
        })
    }

    /// Joins a cluster, unless it belongs to one. A process belongs to one cluster for its life:
    /// the first from which it accepts a reply or a route.
    pub(crate) fn join_cluster(&mut self, cluster: u8) {
        if self.cluster == 0 {
            self.cluster = cluster;
        }
    }

    /// Returns whether it may accept what a store of that cluster sends.
    pub(crate) fn may_accept_from(&self, cluster: u8, rules: RuleSet) -> bool {
        let is_own = self.cluster == cluster || self.cluster == 0;
        is_own || !rules.has(Rule::ReplyNamesCluster)
    }

    /// Returns whether it may serve a caller of that cluster. A forwarding AllocSvr is such a
    /// caller.
    pub(crate) fn may_serve_caller_of(&self, cluster: u8, rules: RuleSet) -> bool {
        self.cluster == cluster || !rules.has(Rule::CallNamesCluster)
    }
}
