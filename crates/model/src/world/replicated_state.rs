//! The replicated state, and what each command does to it. No other file has these rules.
//!
//! One slot with one section stands for all: no rule of the protocol ties two sections or two
//! slots together, except that one command carries the high-water marks of many sections.
//!
//! Invariant: the windows that `Open` and `Raise` give to two generations never overlap in a
//! number that was handed out, for all commands that arrive late, twice or never.

use crate::rules::{Rule, RuleSet};
use crate::world::store_command::{HighWaterReport, SessionId, StoreCommand, StoreReply};

/// The durable row of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SectionState {
    /// Durable upper bound of every cur_seq.
    pub(crate) max: u8,
    /// Count of Opens.
    pub(crate) generation: u8,
    /// max_seq before this generation.
    pub(crate) base: u8,
    /// Nonce of the Open of this generation.
    pub(crate) nonce: u8,
    /// Whether this generation has not ended.
    pub(crate) open: bool,
}

impl SectionState {
    /// Returns whether this generation is the current one and has not ended.
    fn is_open_at(&self, generation: u8) -> bool {
        self.open && self.generation == generation
    }
}

/// The durable row of the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlotState {
    /// Fencing token.
    pub(crate) epoch: u8,
    /// Owner; 0 is none. It may be a session that has ended.
    pub(crate) owner: SessionId,
}

/// A session that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LivingSession {
    /// Its id.
    pub(crate) id: SessionId,
    /// Its name.
    pub(crate) name: u8,
    /// Nonce of its OpenSession.
    pub(crate) nonce: u8,
}

/// What a committed entry is applied with, in addition to the command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ApplyContext {
    /// The term of the entry.
    pub(crate) term: u8,
    /// The rules in force.
    pub(crate) rules: RuleSet,
    /// Numbers that an Open adds.
    pub(crate) step: u8,
    /// Maps a process to its name.
    pub(crate) name_of_process: fn(u8) -> u8,
}

/// The replicated state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReplicatedState {
    /// Which cluster it is. Clusters count from 1.
    pub(crate) cluster: u8,
    /// The one section.
    pub(crate) section: SectionState,
    /// The one slot.
    pub(crate) slot: SlotState,
    /// Sessions that have not ended.
    pub(crate) sessions: Vec<LivingSession>,
    /// The newest session id.
    pub(crate) newest_session: SessionId,
    /// Count of the entries that the work of a leader depends on.
    pub(crate) version: u8,
}

impl ReplicatedState {
    /// Returns the state of a new cluster, which has assigned no slot yet.
    pub(crate) fn new_cluster(cluster: u8) -> Self {
        ReplicatedState {
            cluster,
            section: SectionState {
                max: 0,
                generation: 0,
                base: 0,
                nonce: 0,
                open: false,
            },
            slot: SlotState { epoch: 0, owner: 0 },
            sessions: Vec::new(),
            newest_session: 0,
            version: 1,
        }
    }

    /// Returns whether the session has not ended.
    pub(crate) fn is_living(&self, session: SessionId) -> bool {
        self.sessions.iter().any(|living| living.id == session)
    }

    /// Returns whether the session lives and owns the slot at this epoch.
    pub(crate) fn is_owner(&self, session: SessionId, epoch: u8) -> bool {
        let owner = session;
        self.is_living(session) && self.slot == SlotState { epoch, owner }
    }

    /// Applies one committed entry. Returns the reply that the leader would send.
    pub(crate) fn apply(
        &mut self,
        command: StoreCommand,
        context: &ApplyContext,
    ) -> Option<StoreReply> {
        let rules = context.rules;
        match command {
            StoreCommand::OpenSession {
                process,
                nonce,
                proof,
            } => {
                let name = (context.name_of_process)(process);
                return self.open_session(name, nonce, proof, rules);
            }
            StoreCommand::Open {
                session,
                epoch,
                expected,
                nonce,
            } => return Some(self.open_section(session, epoch, expected, nonce, context)),
            StoreCommand::Raise {
                session,
                epoch,
                generation,
                to,
            } => return self.raise_section(session, epoch, generation, to, rules),
            StoreCommand::CloseSession {
                session,
                epoch,
                last,
            } => {
                if self.is_living(session) {
                    if !rules.has(Rule::LeaveOwner) || self.is_owner(session, epoch) {
                        self.apply_mark(last, Rule::LeaveGeneration, rules);
                    }
                    self.end_session(session);
                }
            }
            StoreCommand::ExpireSession { session, term } => {
                let is_of_term = term == context.term || !rules.has(Rule::ExpireTerm);
                if self.is_living(session) && is_of_term {
                    self.end_session(session);
                }
            }
            StoreCommand::Assign { from, to } => {
                let is_free = !self.is_living(self.slot.owner) || !rules.has(Rule::AssignFree);
                let is_at_epoch = self.slot.epoch == from || !rules.has(Rule::AssignFrom);
                if is_free && is_at_epoch && self.is_living(to) {
                    self.assign_slot(to);
                }
            }
            StoreCommand::CloseSection {
                session,
                epoch,
                last,
            } => {
                if self.is_owner(session, epoch) || !rules.has(Rule::CloseOwner) {
                    self.apply_mark(last, Rule::CloseGeneration, rules);
                }
            }
            StoreCommand::MoveSlot {
                session,
                epoch,
                last,
                to,
            } => {
                if self.is_owner(session, epoch) || !rules.has(Rule::MoveOwner) {
                    self.apply_mark(last, Rule::MoveGeneration, rules);
                    self.assign_slot(if self.is_living(to) { to } else { 0 });
                }
            }
        }
        None
    }

    fn assign_slot(&mut self, owner: SessionId) {
        let epoch = self.slot.epoch + 1;
        self.slot = SlotState { epoch, owner };
        self.version += 1;
    }

    fn end_session(&mut self, session: SessionId) {
        self.sessions.retain(|living| living.id != session);
        self.version += 1;
    }

    /// Ends the generation and lowers max_seq to the highest number that was used.
    fn apply_mark(&mut self, last: HighWaterReport, fence: Rule, rules: RuleSet) {
        let section = &mut self.section;
        let is_current = section.is_open_at(last.generation);
        if last.generation == 0 || rules.has(fence) && !is_current {
            return;
        }
        section.max = if rules.has(Rule::Clamp) {
            last.highest.clamp(section.base, section.max)
        } else {
            last.highest
        };
        section.open = !rules.has(Rule::EndGeneration);
    }

    fn open_session(
        &mut self,
        name: u8,
        nonce: u8,
        proof: SessionId,
        rules: RuleSet,
    ) -> Option<StoreReply> {
        if let Some(same) = self.sessions.iter().find(|living| living.nonce == nonce) {
            let session = same.id;
            return Some(StoreReply::SessionOpened { nonce, session });
        }
        let of_name = self.sessions.iter().find(|living| living.name == name);
        let session = self.newest_session + 1;
        if let Some(old) = of_name.map(|living| living.id) {
            if proof == old || proof != 0 && !rules.has(Rule::ProofOfSession) {
                self.end_session(old);
                if self.slot.owner == old {
                    self.assign_slot(session);
                }
            } else if rules.has(Rule::NameExclusive) {
                return None;
            }
        }
        self.newest_session = session;
        self.sessions.push(LivingSession {
            id: session,
            name,
            nonce,
        });
        self.version += 1;
        Some(StoreReply::SessionOpened { nonce, session })
    }

    fn open_section(
        &mut self,
        session: SessionId,
        epoch: u8,
        expected: u8,
        nonce: u8,
        context: &ApplyContext,
    ) -> StoreReply {
        let rules = context.rules;
        if rules.has(Rule::OpenOwner) && !self.is_owner(session, epoch) {
            return StoreReply::OpenRejected { session, nonce };
        }
        let section = &mut self.section;
        let is_retry = rules.has(Rule::OpenNonce) && section.nonce == nonce;
        if !is_retry {
            if rules.has(Rule::OpenExpected) && section.generation != expected {
                return StoreReply::OpenRejected { session, nonce };
            }
            *section = SectionState {
                max: section.max + context.step,
                generation: section.generation + 1,
                base: section.max,
                nonce,
                open: true,
            };
        }
        StoreReply::SectionOpened {
            session,
            epoch,
            nonce,
            generation: section.generation,
            base: section.base,
            max: section.max,
        }
    }

    fn raise_section(
        &mut self,
        session: SessionId,
        epoch: u8,
        generation: u8,
        to: u8,
        rules: RuleSet,
    ) -> Option<StoreReply> {
        let is_owner = self.is_owner(session, epoch) || !rules.has(Rule::RaiseOwner);
        let is_current = self.section.is_open_at(generation);
        if !is_owner || rules.has(Rule::RaiseGeneration) && !is_current {
            return None;
        }
        self.section.max = self.section.max.max(to);
        Some(StoreReply::Raised {
            session,
            generation,
            max: self.section.max,
        })
    }
}
