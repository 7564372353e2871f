//! The replicated state and what each command does to it: the only copy of these rules here.
//!
//! One slot with one section stands for all: no rule of the protocol ties two sections or two
//! slots together, except that finals of many sections travel in one command.
//!
//! Invariant: the windows that `Open` and `Raise` give to two generations never overlap in a
//! number that was handed out, whatever commands arrive late, twice or never.

use crate::rules::{Rule, Rules};

/// A session's id; 0 is none. Never given twice.
pub type Sid = u8;

/// What an owner reports when it stops using a generation: the highest value a counter reached.
/// Generation 0 means that there is nothing to report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Final {
    /// The generation it speaks of.
    pub generation: u8,
    /// The highest value a counter of it reached.
    pub highest: u8,
}

/// A command of the log. Everything but `ExpireSession` and `Assign` is a request of an AllocSvr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "names and meanings are those of the design, section 4"
)]
pub enum Command {
    OpenSession {
        process: u8,
        nonce: u8,
        proof: Sid,
    },
    CloseSession {
        sid: Sid,
        epoch: u8,
        last: Final,
    },
    ExpireSession {
        sid: Sid,
        term: u8,
    },
    Assign {
        from: u8,
        to: Sid,
    },
    Open {
        sid: Sid,
        epoch: u8,
        expected: u8,
        nonce: u8,
    },
    Raise {
        sid: Sid,
        epoch: u8,
        generation: u8,
        to: u8,
    },
    CloseSection {
        sid: Sid,
        epoch: u8,
        last: Final,
    },
    MoveSlot {
        sid: Sid,
        epoch: u8,
        last: Final,
        to: Sid,
    },
}

/// An answer that its receiver acts upon. Other answers change nothing and are not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(
    missing_docs,
    reason = "names and meanings are those of the design, section 4"
)]
pub enum Reply {
    Session {
        nonce: u8,
        sid: Sid,
    },
    Opened {
        sid: Sid,
        epoch: u8,
        nonce: u8,
        generation: u8,
        base: u8,
        max: u8,
    },
    OpenRefused {
        sid: Sid,
        nonce: u8,
    },
    Raised {
        sid: Sid,
        generation: u8,
        max: u8,
    },
}

/// The section's durable row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Section {
    /// Durable upper bound of every cur_seq.
    pub max: u8,
    /// Count of Opens.
    pub generation: u8,
    /// max_seq before this generation.
    pub base: u8,
    /// Nonce of this generation's Open.
    pub nonce: u8,
    /// Has this generation not ended?
    pub open: bool,
}

/// The slot's durable row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Fencing token.
    pub epoch: u8,
    /// Owner; 0 is none. It may be a session that is gone.
    pub owner: Sid,
}

/// A living session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Session {
    /// Its id.
    pub sid: Sid,
    /// Its name.
    pub name: u8,
    /// Nonce of its OpenSession.
    pub nonce: u8,
}

/// The replicated state. `version` counts the entries that a leader's work depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "rows as documented at their types")]
pub struct Store {
    /// Which cluster it is: they count from 1.
    pub cluster: u8,
    pub section: Section,
    pub slot: Slot,
    pub sessions: Vec<Session>,
    pub sids: u8,
    pub version: u8,
}

impl Store {
    /// The state of a new cluster, which has assigned no slot yet.
    pub fn empty(cluster: u8) -> Self {
        Store {
            cluster,
            section: Section {
                max: 0,
                generation: 0,
                base: 0,
                nonce: 0,
                open: false,
            },
            slot: Slot { epoch: 0, owner: 0 },
            sessions: Vec::new(),
            sids: 0,
            version: 1,
        }
    }

    /// Does the session live?
    pub fn lives(&self, sid: Sid) -> bool {
        self.sessions.iter().any(|session| session.sid == sid)
    }

    /// Does the living session own the slot at this epoch?
    pub(crate) fn owns(&self, sid: Sid, epoch: u8) -> bool {
        self.lives(sid) && self.slot == Slot { epoch, owner: sid }
    }

    fn give(&mut self, owner: Sid) {
        self.slot = Slot {
            epoch: self.slot.epoch + 1,
            owner,
        };
        self.version += 1;
    }

    fn end(&mut self, sid: Sid) {
        self.sessions.retain(|session| session.sid != sid);
        self.version += 1;
    }

    /// Ends the generation and lowers max_seq to what was really used.
    fn apply_final(&mut self, last: Final, fence: Rule, rules: Rules) {
        let section = &mut self.section;
        let current = section.open && section.generation == last.generation;
        if last.generation == 0 || rules.has(fence) && !current {
            return;
        }
        section.max = if rules.has(Rule::Clamp) {
            last.highest.clamp(section.base, section.max)
        } else {
            last.highest
        };
        section.open = !rules.has(Rule::EndGeneration);
    }

    /// Applies one committed entry of the given term. `names` maps a process to its name.
    pub fn apply(
        &mut self,
        command: Command,
        term: u8,
        rules: Rules,
        step: u8,
        names: fn(u8) -> u8,
    ) -> Option<Reply> {
        match command {
            Command::OpenSession {
                process,
                nonce,
                proof,
            } => self.open_session(names(process), nonce, proof, rules),
            Command::CloseSession { sid, epoch, last } => {
                if self.lives(sid) {
                    if !rules.has(Rule::LeaveOwner) || self.owns(sid, epoch) {
                        self.apply_final(last, Rule::LeaveGeneration, rules);
                    }
                    self.end(sid);
                }
                None
            }
            Command::ExpireSession { sid, term: decided } => {
                if self.lives(sid) && (decided == term || !rules.has(Rule::ExpireTerm)) {
                    self.end(sid);
                }
                None
            }
            Command::Assign { from, to } => {
                let free = !self.lives(self.slot.owner) || !rules.has(Rule::AssignFree);
                let at = self.slot.epoch == from || !rules.has(Rule::AssignFrom);
                if free && at && self.lives(to) {
                    self.give(to);
                }
                None
            }
            Command::Open {
                sid,
                epoch,
                expected,
                nonce,
            } => Some(self.open(sid, epoch, expected, nonce, rules, step)),
            Command::Raise {
                sid,
                epoch,
                generation,
                to,
            } => {
                let owns = self.owns(sid, epoch) || !rules.has(Rule::RaiseOwner);
                let current = self.section.open && self.section.generation == generation;
                if !owns || rules.has(Rule::RaiseGeneration) && !current {
                    return None;
                }
                self.section.max = self.section.max.max(to);
                Some(Reply::Raised {
                    sid,
                    generation,
                    max: self.section.max,
                })
            }
            Command::CloseSection { sid, epoch, last } => {
                if self.owns(sid, epoch) || !rules.has(Rule::CloseOwner) {
                    self.apply_final(last, Rule::CloseGeneration, rules);
                }
                None
            }
            Command::MoveSlot {
                sid,
                epoch,
                last,
                to,
            } => {
                if self.owns(sid, epoch) || !rules.has(Rule::MoveOwner) {
                    self.apply_final(last, Rule::MoveGeneration, rules);
                    self.give(if self.lives(to) { to } else { 0 });
                }
                None
            }
        }
    }

    fn open_session(&mut self, name: u8, nonce: u8, proof: Sid, rules: Rules) -> Option<Reply> {
        if let Some(same) = self.sessions.iter().find(|session| session.nonce == nonce) {
            return Some(Reply::Session {
                nonce,
                sid: same.sid,
            });
        }
        let living = self
            .sessions
            .iter()
            .find(|session| session.name == name)
            .map(|session| session.sid);
        let sid = self.sids + 1;
        if let Some(old) = living {
            if proof == old || proof != 0 && !rules.has(Rule::ProofOfSession) {
                self.end(old);
                if self.slot.owner == old {
                    self.give(sid);
                }
            } else if rules.has(Rule::NameExclusive) {
                return None;
            }
        }
        self.sids = sid;
        self.sessions.push(Session { sid, name, nonce });
        self.version += 1;
        Some(Reply::Session { nonce, sid })
    }

    fn open(
        &mut self,
        sid: Sid,
        epoch: u8,
        expected: u8,
        nonce: u8,
        rules: Rules,
        step: u8,
    ) -> Reply {
        if rules.has(Rule::OpenOwner) && !self.owns(sid, epoch) {
            return Reply::OpenRefused { sid, nonce };
        }
        let section = &mut self.section;
        let again = rules.has(Rule::OpenNonce) && section.nonce == nonce;
        if !again {
            if rules.has(Rule::OpenExpected) && section.generation != expected {
                return Reply::OpenRefused { sid, nonce };
            }
            *section = Section {
                max: section.max + step,
                generation: section.generation + 1,
                base: section.max,
                nonce,
                open: true,
            };
        }
        Reply::Opened {
            sid,
            epoch,
            nonce,
            generation: section.generation,
            base: section.base,
            max: section.max,
        }
    }
}
