//! StoreSvr nodes that lead or believe so: terms, the log's end, the arbiter.
//!
//! Invariant (design 5.1, 5.2): while an owner's lease holds, no leader has expired its session.
//! The schedules that would break it start with a leader that does not know what another leader
//! promised or decided; so both nodes' memories are here, and only the log is shared.

use crate::rules::Rule;
use crate::scenario::Clocks;
use crate::store::{Command, Sid, Slot, Store};
use crate::world::{Action, LEASE, Protocol, TAKEOVER_WAIT, World, allow};

/// The log's end. Committed entries are in [`Store`]; at most one entry is appended and not yet
/// committed. A new leader may have it or not; if it has, it is committed with the first entry
/// of its own term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Raft {
    /// The newest term.
    pub term: u8,
    /// Its leader.
    pub leader: usize,
    /// The uncommitted entry with its term.
    pub tail: Option<(u8, Command)>,
}

/// A node's memory. It stays when the node is deposed: it need not notice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The term it believes it leads; 0 is none.
    pub term: u8,
    /// The state's version after that term's first entry; 0 before it is committed.
    pub first: u8,
    /// What it has applied: version, slot, bits of living sessions.
    pub applied: (u8, Slot, u8),
    /// Ticks since it became leader in this term, up to W.
    pub leading: u8,
    /// Ticks since the last stamp of each session in this term, up to W.
    pub stamps: [u8; 4],
    /// Bits of sessions that are being expired.
    pub expiring: u8,
    /// What its arbiter has decided and not yet proposed. A term may end in between.
    pub decided: Option<Command>,
    /// An earlier quorum round (only a removed rule uses it).
    pub round: Option<Round>,
}

pub(crate) fn bit(sid: Sid) -> u8 {
    1 << sid
}

fn view(store: &Store) -> (u8, Slot, u8) {
    (
        store.version,
        store.slot,
        store
            .sessions
            .iter()
            .fold(0, |bits, session| bits | bit(session.sid)),
    )
}

impl Node {
    /// A node that has applied everything; the leader has led for long and just stamped all.
    pub fn new(leads: bool, timed: u8, store: &Store) -> Self {
        let stamp = |sid| {
            if leads && timed & bit(sid) != 0 {
                0
            } else {
                TAKEOVER_WAIT
            }
        };
        Node {
            term: leads.into(),
            first: leads.into(),
            applied: view(store),
            leading: TAKEOVER_WAIT,
            stamps: [1, 2, 3, 4].map(stamp),
            expiring: 0,
            decided: None,
            round: None,
        }
    }

    pub(crate) fn lives(&self, sid: Sid) -> bool {
        self.applied.2 & bit(sid) != 0
    }
}

/// A quorum round that confirmed a leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Round {
    /// The term in which it was confirmed.
    pub term: u8,
    /// The read index: what must be applied before the answer.
    pub index: u8,
}

/// Where a keep-alive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// At a node (which may have to become leader first), with the round that confirmed it.
    At(usize, Option<Round>),
    /// Stamped; the reply is on the way (only apart where the delay matters).
    Stamped,
}

/// A keep-alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Renewal {
    /// The process that sent it.
    pub alloc: usize,
    /// For which session.
    pub sid: Sid,
    /// Ticks since t0, up to D.
    pub age: u8,
    /// Where it is.
    pub way: Way,
}

impl Protocol {
    pub(crate) fn list_leader_actions(&self, world: &World, actions: &mut Vec<Action>) {
        if world.nodes[world.raft.leader].first == 0 {
            actions.push(Action::FirstEntry);
        } else if world.raft.tail.is_some() {
            actions.push(Action::CommitTail);
        }
        for node in 0..world.nodes.len() {
            if world.raft.term < self.scenario.terms {
                actions.push(Action::Elect {
                    node,
                    keep_tail: true,
                });
                if world.raft.tail.is_some() {
                    actions.push(Action::Elect {
                        node,
                        keep_tail: false,
                    });
                }
            }
            if !self.rules.has(Rule::SenderKnown) {
                actions.push(Action::Usurp { node });
            }
            if world.nodes[node].applied.0 < world.store.version {
                actions.push(Action::CatchUp { node });
            }
            if world.nodes[node].decided.is_some() {
                actions.push(Action::Propose { node });
            } else if world.nodes[node].term != 0 && self.may_lead(world, node) {
                for sid in 1..=world.store.sids {
                    actions.extend([
                        Action::DecideExpire { node, sid },
                        Action::DecideAssign { node, sid },
                    ]);
                }
            }
            if !self.rules.has(Rule::MarkSticks) {
                actions.push(Action::Unmark { node });
            }
            if self.leads(world, node) {
                actions.push(Action::Round { node });
            }
            for (alloc, process) in world.allocs.iter().enumerate() {
                if process.session != 0 && process.timed(&self.scenario) {
                    actions.push(Action::KeepAlive { alloc, node });
                }
            }
        }
        for (renewal, sent) in world.renewals.iter().enumerate() {
            actions.push(match sent.way {
                Way::At(..) => Action::Stamp { renewal },
                Way::Stamped => Action::Renewed { renewal },
            });
        }
    }

    pub(crate) fn leaders(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Tick => self.tick(world)?,
            Action::Elect { node, keep_tail } => self.elect(world, node, keep_tail)?,
            Action::FirstEntry => {
                allow(world.nodes[world.raft.leader].first == 0)?;
                if let Some((term, command)) = world.raft.tail.take() {
                    self.commit(world, command, term);
                }
                world.store.version += 1;
                world.nodes[world.raft.leader].first = world.store.version;
            }
            Action::CommitTail => {
                allow(world.nodes[world.raft.leader].first != 0)?;
                let (term, command) = world.raft.tail.take()?;
                self.commit(world, command, term);
            }
            Action::Usurp { node } => self.usurp(world, node)?,
            Action::CatchUp { node } => world.nodes[node].applied = view(&world.store),
            Action::DecideExpire { .. } | Action::DecideAssign { .. } => {
                self.decide(world, action)?
            }
            Action::Unmark { node } => {
                allow(!self.rules.has(Rule::MarkSticks) && world.nodes[node].expiring != 0)?;
                world.nodes[node].expiring = 0;
            }
            Action::Propose { node } => {
                let elected = world.raft.leader == node;
                allow(elected && self.leads(world, node) && world.nodes[node].first != 0)?;
                allow(world.raft.tail.is_none())?;
                let command = world.nodes[node].decided.take()?;
                world.raft.tail = Some((world.raft.term, command));
            }
            Action::KeepAlive { .. }
            | Action::Round { .. }
            | Action::Stamp { .. }
            | Action::Renewed { .. } => {
                self.renew(world, action)?;
                self.forget_renewals(world);
                world.renewals.sort_unstable();
            }
            _ => return None,
        }
        Some(())
    }

    /// May this node still get an entry committed within the bounds?
    fn may_lead(&self, world: &World, node: usize) -> bool {
        self.leads(world, node) || world.raft.term < self.scenario.terms
    }

    /// Forgets renewals that no node can stamp any more, which is as good as lost.
    fn forget_renewals(&self, world: &mut World) {
        if self.rules.has(Rule::Confirm) && self.rules.has(Rule::ConfirmAfterRequest) {
            let renewals = std::mem::take(&mut world.renewals);
            let stampable = |renewal: &Renewal| match renewal.way {
                Way::At(node, None) => self.may_lead(world, node),
                Way::At(node, Some(round)) => {
                    round.term == world.nodes[node].term || !self.rules.has(Rule::StampInTerm)
                }
                Way::Stamped => true,
            };
            world.renewals = renewals.into_iter().filter(stampable).collect();
        }
    }

    /// Does this node lead the newest term, whatever it believes? Only who was elected has its
    /// term, and without [`Rule::SenderKnown`] a usurper as well.
    pub(crate) fn leads(&self, world: &World, node: usize) -> bool {
        world.nodes[node].term == world.raft.term
    }

    /// A deposed leader whose id was given to the elected one finds that id in the newest vote, and
    /// leads the newest term without an election. A quorum answers its rounds, because the others
    /// know a leader by its id only. What it appends is stored nowhere.
    fn usurp(&self, world: &mut World, node: usize) -> Option<()> {
        allow(!self.rules.has(Rule::SenderKnown))?;
        let waits = self.rules.has(Rule::WaitAfterElection);
        let deposed = &mut world.nodes[node];
        allow(deposed.term != 0 && deposed.term < world.raft.term)?;
        deposed.term = world.raft.term;
        deposed.first = deposed.applied.0;
        deposed.leading = if waits { 0 } else { TAKEOVER_WAIT };
        deposed.stamps = [TAKEOVER_WAIT; 4];
        deposed.expiring = 0;
        deposed.round = None;
        Some(())
    }

    /// Time passes for all: see the module's overview for why one clock is enough.
    fn tick(&self, world: &mut World) -> Option<()> {
        allow(self.scenario.clocks == Clocks::Bounded)?;
        let age = |ticks: &mut u8, limit: u8| *ticks = (*ticks + 1).min(limit);
        for node in &mut world.nodes {
            age(&mut node.leading, TAKEOVER_WAIT);
            node.stamps
                .iter_mut()
                .for_each(|stamp| age(stamp, TAKEOVER_WAIT));
        }
        for alloc in &mut world.allocs {
            age(&mut alloc.lease, LEASE);
        }
        for renewal in &mut world.renewals {
            age(&mut renewal.age, LEASE);
        }
        if self.rules.has(Rule::LeaseFromT0) {
            world.renewals.retain(|renewal| renewal.age < LEASE); // can grant nothing any more
        }
        world.renewals.sort_unstable();
        Some(())
    }

    /// Timers belong to one term; what a task has decided does not go away.
    fn elect(&self, world: &mut World, node: usize, keep_tail: bool) -> Option<()> {
        allow(world.raft.term < self.scenario.terms)?;
        world.raft.term += 1;
        world.raft.leader = node;
        if !keep_tail {
            world.raft.tail.take()?;
        }
        // The deposed leader may decide what it likes, and more than its timers would let it:
        // only the newest leader's timers need to be kept.
        for deposed in &mut world.nodes {
            deposed.leading = TAKEOVER_WAIT;
            deposed.stamps = [TAKEOVER_WAIT; 4];
        }
        let waits = self.rules.has(Rule::WaitAfterElection);
        let elected = &mut world.nodes[node];
        elected.term = world.raft.term;
        elected.first = 0;
        elected.leading = if waits { 0 } else { TAKEOVER_WAIT };
        elected.expiring = 0;
        elected.round = None;
        self.forget_renewals(world);
        Some(())
    }

    fn decide(&self, world: &mut World, action: Action) -> Option<()> {
        let wait = if self.rules.has(Rule::DriftMargin) {
            TAKEOVER_WAIT
        } else {
            TAKEOVER_WAIT - 1
        };
        let (Action::DecideExpire { node, sid } | Action::DecideAssign { node, sid }) = action
        else {
            return None;
        };
        let node = &mut world.nodes[node];
        allow(node.term != 0 && node.decided.is_none() && node.lives(sid))?;
        if self.rules.has(Rule::ArbiterFirstEntry) {
            allow(node.first != 0 && node.applied.0 >= node.first)?;
        }
        let (_, slot, _) = node.applied;
        node.decided = Some(if matches!(action, Action::DecideExpire { .. }) {
            let timed = self.scenario.timed & bit(sid) != 0;
            allow(timed && node.leading >= wait && node.stamps[sid as usize - 1] >= wait)?;
            node.expiring |= bit(sid);
            Command::ExpireSession {
                sid,
                term: node.term,
            }
        } else {
            allow(!node.lives(slot.owner))?;
            Command::Assign {
                from: slot.epoch,
                to: sid,
            }
        });
        Some(())
    }
}
