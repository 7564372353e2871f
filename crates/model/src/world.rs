//! The whole state, its actions, and the properties: the stateright model.
//!
//! Invariant of the model itself: an action only does what some machine could do at that moment
//! knowing only what it holds; the ledger is the one thing nobody in the protocol may read.

use std::collections::BTreeSet;

use stateright::{Model, Property};

use crate::alloc_process::{Alloc, Kind};
use crate::clusters::{Answer, Sent};
use crate::leaders::{Node, Raft, Renewal};
use crate::ledger::Ledgers;
use crate::rules::Rules;
use crate::scenario::{Clocks, Scenario};
use crate::store::{Command, Reply, Section, Session, Sid, Slot, Store};

/// D in ticks, as the slowest owner clock within the drift bound measures it.
pub const LEASE: u8 = 2;
/// W in ticks, as the fastest arbiter clock measures it: 1.25 D / 1.1 > D / 0.9.
pub const TAKEOVER_WAIT: u8 = 2;

/// How much of each bounded thing has happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "counts of the like-named limits of a scenario")]
pub struct Spent {
    pub opens: u8,
    pub raises: u8,
    pub closes: u8,
    pub moves: u8,
    pub leaves: u8,
    pub sessions: u8,
    pub crashes: u8,
    pub expiries: u8,
    pub assigns: u8,
    pub remakes: u8,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The state after all committed entries.
    pub store: Store,
    /// The log's end and who may write it.
    pub raft: Raft,
    /// StoreSvr nodes that lead or believe so.
    pub nodes: Vec<Node>,
    /// Keep-alives on their way.
    pub renewals: Vec<Renewal>,
    /// AllocSvr processes.
    pub allocs: Vec<Alloc>,
    /// Requests sent: any of them may still arrive, again and again.
    pub sent: BTreeSet<Sent>,
    /// Replies sent, likewise.
    pub replies: BTreeSet<Answer>,
    /// What callers saw.
    pub ledgers: Ledgers,
    /// What is used up.
    pub spent: Spent,
}

/// One step of one machine, or of time, or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described where it is carried out")]
pub enum Action {
    Tick,
    Elect { node: usize, keep_tail: bool },
    FirstEntry,
    CommitTail,
    Usurp { node: usize },
    CatchUp { node: usize },
    DecideExpire { node: usize, sid: Sid },
    DecideAssign { node: usize, sid: Sid },
    Unmark { node: usize },
    Propose { node: usize },
    KeepAlive { alloc: usize, node: usize },
    Round { node: usize },
    Stamp { renewal: usize },
    Renewed { renewal: usize },
    ExpireAtOnce { sid: Sid },
    AssignAtOnce { sid: Sid },
    MakeAgain,
    Request { request: usize },
    Answered { reply: usize },
    Learn { alloc: usize },
    OpenSession { alloc: usize, proof: Sid },
    RetryOpenSession { alloc: usize },
    Open { alloc: usize },
    Raise { alloc: usize },
    Close { alloc: usize },
    Unseal { alloc: usize },
    Move { alloc: usize, to: Sid },
    Leave { alloc: usize },
    Crash { alloc: usize },
    Enter { alloc: usize, kind: Kind, by: u8 },
    Take { alloc: usize, call: usize },
    EarlyCheck { alloc: usize },
    CheckBeforeTake { alloc: usize, call: usize },
    ReceiveLate { alloc: usize, call: usize },
    Reply { alloc: usize, call: usize },
    Burn { alloc: usize, call: usize },
}

/// The protocol under some rules, within some bounds.
#[derive(Clone, Debug)]
pub struct Protocol {
    /// The bounds.
    pub scenario: Scenario,
    /// The rules in force.
    pub rules: Rules,
}

impl Protocol {
    /// Appends and commits at once, with the reply that the leader would send.
    pub(crate) fn commit(&self, world: &mut World, command: Command, term: u8) -> Option<Reply> {
        let epoch = world.store.slot.epoch;
        let reply = world.store.apply(
            command,
            term,
            self.rules,
            self.scenario.step,
            self.scenario.names,
        );
        if matches!(command, Command::MoveSlot { .. }) && world.store.slot.epoch > epoch {
            let section = world.store.section;
            let ledger = world.ledgers.of_mut(world.store.cluster);
            ledger.loose |= section.max > ledger.top.max(section.base);
        }
        reply
    }

    /// A request leaves an AllocSvr: into the network, or straight to the answer.
    pub(crate) fn send(&self, world: &mut World, alloc: usize, command: Command) {
        let sent = Sent {
            command,
            process: alloc as u8,
            cluster: world.allocs[alloc].cluster,
        };
        if self.scenario.hostile {
            world.sent.insert(sent);
        } else if let Some(answer) = self.deliver(world, sent) {
            self.receive(world, answer);
        }
    }

    fn network(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Request { request } => {
                let request = *world.sent.iter().nth(request)?;
                let answer = self.deliver(world, request);
                world.replies.extend(answer);
            }
            Action::Answered { reply } => {
                let reply = *world.replies.iter().nth(reply)?;
                self.receive(world, reply);
            }
            // The arbiter in one step. With clocks unbounded W may seem to have passed at any
            // moment; within the drift bound it acts when the lease is over (see "leases").
            Action::ExpireAtOnce { sid } => {
                allow(world.store.lives(sid))?;
                if self.scenario.clocks == Clocks::Bounded {
                    let leased = |alloc: &Alloc| alloc.session == sid && alloc.lease < LEASE;
                    allow(self.scenario.timed & 1 << sid != 0 && !world.allocs.iter().any(leased))?;
                }
                spend(&mut world.spent.expiries, self.scenario.expiries)?;
                let term = world.raft.term;
                self.commit(world, Command::ExpireSession { sid, term }, term);
            }
            Action::AssignAtOnce { sid } => {
                allow(!world.store.lives(world.store.slot.owner) && world.store.lives(sid))?;
                spend(&mut world.spent.assigns, self.scenario.assigns)?;
                let from = world.store.slot.epoch;
                self.commit(world, Command::Assign { from, to: sid }, world.raft.term);
            }
            Action::MakeAgain => self.make_again(world)?,
            _ => return None,
        }
        Some(())
    }
}

/// `?`-able guard.
pub(crate) fn allow(condition: bool) -> Option<()> {
    condition.then_some(())
}

/// Uses up one of a bounded number.
pub(crate) fn spend(count: &mut u8, limit: u8) -> Option<()> {
    allow(*count < limit)?;
    *count += 1;
    Some(())
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let bounds = &self.scenario;
        let served = !bounds.free_at_start && !bounds.cold;
        let sessions = (1..=bounds.members)
            .map(|sid| Session {
                sid,
                name: (bounds.names)(sid - 1),
                nonce: 100 + sid,
            })
            .collect();
        let store = Store {
            cluster: 1,
            section: Section {
                max: if served { bounds.step } else { 0 },
                generation: served.into(),
                base: 0,
                nonce: 0,
                open: served,
            },
            slot: Slot {
                epoch: 1,
                owner: (!bounds.free_at_start).into(),
            },
            sessions,
            sids: bounds.members,
            version: 1,
        };
        let allocs = (0..bounds.processes)
            .map(|process| {
                let member = process < bounds.members;
                let mut alloc = Alloc::new(process, member, served, &store);
                if !member && bounds.remakes > 0 {
                    alloc.cluster = 0; // it has heard from no store yet
                    alloc.route = Slot { epoch: 0, owner: 0 };
                }
                alloc
            })
            .collect();
        let nodes = (0..bounds.nodes)
            .map(|node| Node::new(node == 0, bounds.timed, &store))
            .collect();
        vec![World {
            store,
            raft: Raft {
                term: 1,
                leader: 0,
                tail: None,
            },
            nodes,
            renewals: Vec::new(),
            allocs,
            sent: BTreeSet::new(),
            replies: BTreeSet::new(),
            ledgers: Ledgers::default(),
            spent: Spent::default(),
        }]
    }

    /// Lists every step that could be imagined; `next_state` refuses those that cannot be taken.
    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !(self.unique(world) && self.monotonic(world)) {
            return; // convicted: nothing to add
        }
        let sids = 1..=world.store.sids;
        if self.scenario.clocks == Clocks::Bounded {
            actions.push(Action::Tick);
        }
        if self.scenario.nodes > 0 {
            self.list_leader_actions(world, actions);
        }
        if world.spent.expiries < self.scenario.expiries {
            actions.extend(sids.clone().map(|sid| Action::ExpireAtOnce { sid }));
        }
        if world.spent.assigns < self.scenario.assigns {
            actions.extend(sids.map(|sid| Action::AssignAtOnce { sid }));
        }
        if world.spent.remakes < self.scenario.remakes {
            actions.push(Action::MakeAgain);
        }
        actions.extend((0..world.sent.len()).map(|request| Action::Request { request }));
        actions.extend((0..world.replies.len()).map(|reply| Action::Answered { reply }));
        for alloc in 0..world.allocs.len() {
            self.list_owner_actions(world, alloc, actions);
        }
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Request { .. }
            | Action::Answered { .. }
            | Action::ExpireAtOnce { .. }
            | Action::AssignAtOnce { .. }
            | Action::MakeAgain => self.network(&mut world, action),
            Action::Tick
            | Action::Elect { .. }
            | Action::FirstEntry
            | Action::CommitTail
            | Action::Usurp { .. }
            | Action::CatchUp { .. }
            | Action::DecideExpire { .. }
            | Action::DecideAssign { .. }
            | Action::Unmark { .. }
            | Action::Propose { .. }
            | Action::KeepAlive { .. }
            | Action::Round { .. }
            | Action::Stamp { .. }
            | Action::Renewed { .. } => self.leaders(&mut world, action),
            _ => self.owner(&mut world, action),
        }?;
        Some(world)
    }

    /// Without some rules a repeated message counts up for ever.
    fn within_boundary(&self, world: &World) -> bool {
        let bounds = &self.scenario;
        let epochs = 2 + bounds.moves + bounds.assigns + bounds.sessions + bounds.nodes;
        world.store.section.generation <= bounds.opens + 2 && world.store.slot.epoch <= epochs
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("unique", Self::unique),
            Property::always("monotonic", Self::monotonic),
            Property::always("tight", Self::tight),
        ];
        properties.extend(
            self.scenario
                .reaches
                .iter()
                .map(|reached| reached.property()),
        );
        properties
    }
}

impl Protocol {
    fn unique(&self, world: &World) -> bool {
        !world.ledgers.any(|ledger| ledger.duplicate)
    }

    /// Promised within the drift bound, and by strict mode always.
    fn monotonic(&self, world: &World) -> bool {
        !world.ledgers.any(|ledger| ledger.disorder)
            || self.scenario.clocks == Clocks::Unbounded && !self.scenario.strict
    }

    /// Promised of planned moves; here judged where there are no unplanned ones.
    fn tight(&self, world: &World) -> bool {
        !world.ledgers.any(|ledger| ledger.loose) || self.scenario.clocks != Clocks::Still
    }
}
