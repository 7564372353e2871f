//! Renewals: keep-alive, the quorum round that confirms, the stamp, the lease (design 5.1).
//!
//! Invariant: t0 comes before the round, the round before any later election, and the stamp is
//! made by a leader of the round's own term: so every lease is over before W has passed from the
//! stamp, and from any later leader's election.

use crate::leaders::{Renewal, Round, Way, bit};
use crate::rules::Rule;
use crate::world::{Action, Protocol, World, allow};

impl Protocol {
    pub(crate) fn renew(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            // One more than may be under way: the oldest is lost.
            Action::KeepAlive { alloc, node } => {
                let mine = |renewal: &Renewal| renewal.alloc == alloc;
                if world
                    .renewals
                    .iter()
                    .filter(|renewal| mine(renewal))
                    .count()
                    == self.scenario.renewals
                {
                    let oldest = world
                        .renewals
                        .iter()
                        .enumerate()
                        .filter(|(_, renewal)| mine(renewal));
                    let (oldest, _) = oldest.max_by_key(|(_, renewal)| renewal.age)?;
                    world.renewals.remove(oldest);
                }
                let way = Way::At(node, world.nodes[node].round);
                world.renewals.push(Renewal {
                    alloc,
                    sid: world.allocs[alloc].session,
                    age: 0,
                    way,
                });
            }
            // The instant at which a quorum answers: the round confirms all that came before it.
            Action::Round { node } => {
                allow(world.nodes[node].first != 0 || !self.rules.has(Rule::ReadFirstEntry))?;
                let round = Some(Round {
                    term: world.raft.term,
                    index: world.store.version,
                });
                for renewal in &mut world.renewals {
                    if renewal.way == Way::At(node, None) {
                        renewal.way = Way::At(node, round);
                    }
                }
                if !self.rules.has(Rule::ConfirmAfterRequest) {
                    world.nodes[node].round = round;
                }
            }
            Action::Stamp { renewal } => {
                let Way::At(at, round) = world.renewals[renewal].way else {
                    return None;
                };
                let sid = world.renewals[renewal].sid;
                let leads = self.leads(world, at);
                let node = &mut world.nodes[at];
                let round = if self.rules.has(Rule::Confirm) {
                    round?
                } else {
                    Round {
                        term: node.term,
                        index: 0,
                    }
                };
                allow(node.term != 0)?;
                allow(node.term == round.term || !self.rules.has(Rule::StampInTerm))?;
                allow(node.applied.0 >= round.index || !self.rules.has(Rule::ReadIndexApplied))?;
                allow(node.lives(sid) || !self.rules.has(Rule::SessionExists))?;
                allow(node.expiring & bit(sid) == 0 || !self.rules.has(Rule::RefuseWhileExpiring))?;
                if leads {
                    node.stamps[sid as usize - 1] = 0;
                }
                world.renewals[renewal].way = Way::Stamped;
                // Counted from t0, an early reply allows all that a late one does.
                if self.rules.has(Rule::LeaseFromT0) {
                    self.renew(world, Action::Renewed { renewal })?;
                }
            }
            Action::Renewed { renewal } => {
                let Renewal {
                    alloc, sid, age, ..
                } = world.renewals.remove(renewal);
                let alloc = &mut world.allocs[alloc];
                if alloc.session == sid {
                    let age = if self.rules.has(Rule::LeaseFromT0) {
                        age
                    } else {
                        0
                    };
                    alloc.lease = alloc.lease.min(age);
                }
            }
            _ => return None,
        }
        Some(())
    }
}
