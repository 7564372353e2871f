//! AllocSvr processes: what they hold in memory, and how they come and go with their sessions.
//!
//! Invariant: what a process holds here it learned from a reply or a route that named a session,
//! an epoch or a generation; nothing is ever taken from [`World::store`] but what a leader could
//! have told it at that moment.
//! `sections.rs` has what it does with its section, `calls.rs` what it does for callers.

use crate::rules::Rule;
use crate::scenario::Scenario;
use crate::store::{Command, Final, Sid, Slot, Store};
use crate::world::{Action, LEASE, Protocol, World, allow, spend};

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The next number.
    Next,
    /// The last number, exactly.
    Current,
    /// To raise the counter to the end of the window (which the store raised before).
    RaiseTo,
}

/// A section object: one generation's window in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Object {
    /// The session it belongs to.
    pub sid: Sid,
    /// The epoch it belongs to.
    pub epoch: u8,
    /// Its generation.
    pub generation: u8,
    /// The last number taken.
    pub last: u8,
    /// The window's end.
    pub max: u8,
    /// Nobody may enter any more.
    pub sealed: bool,
}

/// A call in flight. Without a number it is an adder inside its section object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "session, epoch and generation are those of its section object"
)]
pub struct Call {
    pub kind: Kind,
    pub sid: Sid,
    pub epoch: u8,
    pub generation: u8,
    /// The greatest value shown by calls answered before this one began.
    pub floor: u8,
    /// The number taken, or the value read.
    pub number: Option<u8>,
    /// A check before the taking passed (only a removed rule uses it).
    pub checked: bool,
    /// The caller's cluster.
    pub cluster: u8,
}

/// One AllocSvr process. A restart is another process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Alloc {
    /// It runs (or is paused: nothing obliges it to take a step).
    pub up: bool,
    /// The cluster it belongs to; 0 is none yet.
    pub cluster: u8,
    /// The session it holds itself to have; 0 is none.
    pub session: Sid,
    /// Bits of all sessions it ever had.
    pub sessions: u8,
    /// Nonce of its newest OpenSession.
    pub nonce: u8,
    /// The proof sent with it.
    pub proof: Sid,
    /// Ticks since t0 of the newest renewal, up to D, when the lease is over.
    pub lease: u8,
    /// The newest route it knows.
    pub route: Slot,
    /// The epoch at which it stopped the slot; 0 is none.
    pub stopped: u8,
    /// Bits of nonces of Opens in flight.
    pub opens: u16,
    /// The highest generation it installed.
    pub installed: u8,
    /// The published section object.
    pub object: Option<Object>,
    /// The one before it, while an adder is inside.
    pub older: Option<Object>,
    /// Calls in flight.
    pub calls: Vec<Call>,
    /// An earlier check that passed (only a removed rule uses it).
    pub passed: bool,
}

impl Alloc {
    /// A process; the first member serves the slot already.
    pub fn new(process: u8, member: bool, served: bool, store: &Store) -> Self {
        let sid = if member { process + 1 } else { 0 };
        let owner = served && process == 0;
        Alloc {
            up: true,
            cluster: store.cluster,
            session: sid,
            sessions: if member { 1 << sid } else { 0 },
            nonce: if member { 100 + sid } else { 0 },
            proof: 0,
            lease: if owner { 0 } else { LEASE },
            route: store.slot,
            stopped: 0,
            opens: 0,
            installed: owner.into(),
            object: owner.then_some(Object {
                sid,
                epoch: 1,
                generation: 1,
                last: 0,
                max: store.section.max,
                sealed: false,
            }),
            older: None,
            calls: Vec::new(),
            passed: false,
        }
    }

    /// Is its session subject to time in this scenario?
    pub fn timed(&self, scenario: &Scenario) -> bool {
        scenario.timed & 1 << self.session != 0
    }

    /// Was this session ever its own?
    pub fn had(&self, sid: Sid) -> bool {
        self.sessions & 1 << sid != 0
    }

    pub(crate) fn owns(&self) -> bool {
        self.session != 0 && self.route.owner == self.session
    }

    pub(crate) fn object_of(&mut self, generation: u8) -> Option<&mut Object> {
        let objects = self.object.iter_mut().chain(self.older.iter_mut());
        objects
            .into_iter()
            .find(|object| object.generation == generation)
    }

    pub(crate) fn adders(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| call.number.is_none())
    }

    /// The final of the published object, if it belongs to what the process believes to own.
    pub(crate) fn last(&self) -> Final {
        let own = self
            .object
            .filter(|object| (object.sid, object.epoch) == (self.session, self.route.epoch));
        own.map_or(
            Final {
                generation: 0,
                highest: 0,
            },
            |object| Final {
                generation: object.generation,
                highest: object.last,
            },
        )
    }
}

impl Protocol {
    pub(crate) fn list_owner_actions(
        &self,
        world: &World,
        alloc: usize,
        actions: &mut Vec<Action>,
    ) {
        let (mine, spent, bounds) = (&world.allocs[alloc], &world.spent, &self.scenario);
        if !mine.up {
            return;
        }
        let mut list = |possible: bool, action: Action| actions.extend(possible.then_some(action));
        let object = mine.object.is_some();
        list(
            mine.route.epoch < world.store.slot.epoch,
            Action::Learn { alloc },
        );
        list(
            spent.opens < bounds.opens && mine.owns(),
            Action::Open { alloc },
        );
        list(
            spent.raises < bounds.raises && object,
            Action::Raise { alloc },
        );
        list(
            spent.closes < bounds.closes && object,
            Action::Close { alloc },
        );
        list(spent.leaves < bounds.leaves, Action::Leave { alloc });
        list(spent.crashes < bounds.crashes, Action::Crash { alloc });
        list(object, Action::Unseal { alloc });
        list(object, Action::EarlyCheck { alloc });
        list(true, Action::RetryOpenSession { alloc });
        for sid in 0..=world.store.sids {
            list(
                spent.moves < bounds.moves && sid != 0 && mine.owns(),
                Action::Move { alloc, to: sid },
            );
            list(
                spent.sessions < bounds.sessions,
                Action::OpenSession { alloc, proof: sid },
            );
        }
        for &kind in bounds.kinds {
            for by in 1..=world.store.cluster {
                list(
                    object && mine.calls.len() < bounds.calls,
                    Action::Enter { alloc, kind, by },
                );
            }
        }
        for (call, asked) in mine.calls.iter().enumerate() {
            let adder = asked.number.is_none();
            list(adder, Action::Take { alloc, call });
            list(adder, Action::CheckBeforeTake { alloc, call });
            list(!adder, Action::ReceiveLate { alloc, call });
            list(!adder, Action::Reply { alloc, call });
            list(!adder, Action::Burn { alloc, call });
        }
    }

    pub(crate) fn owner(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Learn { alloc } => {
                let alloc = &mut world.allocs[alloc];
                allow(alloc.up && world.store.slot.epoch > alloc.route.epoch)?;
                allow(self.takes_from(alloc, world.store.cluster))?;
                alloc.join(world.store.cluster);
                alloc.route = world.store.slot;
            }
            Action::OpenSession { .. }
            | Action::RetryOpenSession { .. }
            | Action::Leave { .. }
            | Action::Crash { .. } => {
                self.session(world, action)?;
            }
            Action::Open { .. }
            | Action::Raise { .. }
            | Action::Close { .. }
            | Action::Move { .. }
            | Action::Unseal { .. } => {
                self.section(world, action)?;
            }
            Action::Enter { .. }
            | Action::Take { .. }
            | Action::EarlyCheck { .. }
            | Action::CheckBeforeTake { .. }
            | Action::ReceiveLate { .. }
            | Action::Reply { .. }
            | Action::Burn { .. } => self.call(world, action)?,
            _ => return None,
        }
        Some(())
    }

    fn session(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::OpenSession { alloc, proof } => {
                let mine = &world.allocs[alloc];
                allow(mine.up && (mine.session == 0 || !world.store.lives(mine.session)))?;
                if proof != 0 {
                    // The lock is held by whoever runs with that proof's session, or started
                    // from its directory.
                    let holds = |other: &Alloc| other.up && (other.had(proof) || other.proof != 0);
                    let locked =
                        world.allocs.iter().any(holds) && self.rules.has(Rule::ProofUnderLock);
                    allow(mine.session == 0 && !locked)?;
                }
                spend(&mut world.spent.sessions, self.scenario.sessions)?;
                let nonce = world.spent.sessions;
                let mine = &mut world.allocs[alloc];
                mine.nonce = nonce;
                mine.proof = proof;
                self.send(
                    world,
                    alloc,
                    Command::OpenSession {
                        process: alloc as u8,
                        nonce,
                        proof,
                    },
                );
            }
            // Only of interest if the answer grants a lease: otherwise it changes nothing.
            Action::RetryOpenSession { alloc } => {
                allow(!self.rules.has(Rule::LeaseFromRenewalOnly))?;
                allow(world.store.lives(world.allocs[alloc].session))?;
                world.allocs[alloc].lease = 0;
            }
            Action::Leave { alloc } => {
                let mine = &world.allocs[alloc];
                allow(mine.up && mine.session != 0)?;
                allow(mine.adders().next().is_none() || !self.rules.has(Rule::WaitForAdders))?;
                allow(mine.opens == 0 || !self.rules.has(Rule::StopWaitsForOpens))?;
                spend(&mut world.spent.leaves, self.scenario.leaves)?;
                let mine = &mut world.allocs[alloc];
                let leave = Command::CloseSession {
                    sid: mine.session,
                    epoch: mine.route.epoch,
                    last: mine.last(),
                };
                mine.session = 0;
                if let Some(object) = &mut mine.object {
                    object.sealed = true;
                }
                self.send(world, alloc, leave);
            }
            Action::Crash { alloc } => {
                allow(world.allocs[alloc].up)?;
                spend(&mut world.spent.crashes, self.scenario.crashes)?;
                let crashed = &mut world.allocs[alloc];
                crashed.up = false;
                crashed.session = 0;
                crashed.object = None;
                crashed.older = None;
                crashed.calls.clear();
            }
            _ => return None,
        }
        Some(())
    }
}
