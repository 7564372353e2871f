//! What an owner does with its section: Open, Raise, CloseSection, MoveSlot, and what it makes of
//! the replies, which may come late, twice or never.
//!
//! Invariant: a section object hands out only numbers of its own generation's window, and none
//! after the owner has reported a final for it.

use crate::alloc_process::Object;
use crate::clusters::Answer;
use crate::rules::Rule;
use crate::store::{Command, Final, Reply};
use crate::world::{Action, LEASE, Protocol, World, allow, spend};

impl Protocol {
    pub(crate) fn section(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Open { alloc } => {
                let mine = &world.allocs[alloc];
                allow(mine.up && mine.owns() && mine.stopped != mine.route.epoch)?;
                let expected = world.store.section.generation;
                let served = mine.object.is_some_and(|object| {
                    !object.sealed
                        && object.epoch == mine.route.epoch
                        && object.generation == expected
                });
                allow(!served)?;
                spend(&mut world.spent.opens, self.scenario.opens)?;
                let nonce = world.spent.opens;
                let mine = &mut world.allocs[alloc];
                mine.opens |= 1 << nonce;
                let open = Command::Open {
                    sid: mine.session,
                    epoch: mine.route.epoch,
                    expected,
                    nonce,
                };
                self.send(world, alloc, open);
            }
            Action::Raise { alloc } => {
                let object = world.allocs[alloc].object?;
                allow(!object.sealed)?;
                spend(&mut world.spent.raises, self.scenario.raises)?;
                let Object {
                    sid,
                    epoch,
                    generation,
                    max,
                    ..
                } = object;
                self.send(
                    world,
                    alloc,
                    Command::Raise {
                        sid,
                        epoch,
                        generation,
                        to: max + self.scenario.step,
                    },
                );
            }
            Action::Close { alloc } => {
                let mine = &mut world.allocs[alloc];
                let object = mine.object?;
                let inside = mine
                    .adders()
                    .any(|call| call.generation == object.generation);
                allow(!object.sealed && (!inside || !self.rules.has(Rule::WaitForAdders)))?;
                spend(&mut world.spent.closes, self.scenario.closes)?;
                if self.rules.has(Rule::RememberGeneration) {
                    mine.object = Some(Object {
                        sealed: true,
                        ..object
                    });
                } else {
                    mine.object = None;
                    mine.installed = 0;
                }
                let last = Final {
                    generation: object.generation,
                    highest: object.last,
                };
                self.send(
                    world,
                    alloc,
                    Command::CloseSection {
                        sid: object.sid,
                        epoch: object.epoch,
                        last,
                    },
                );
            }
            // Only without the rules: what was closed or stopped is served again.
            Action::Unseal { alloc } => {
                let mine = &mut world.allocs[alloc];
                let object = mine.object.filter(|object| object.sealed)?;
                let stopped = mine.stopped == object.epoch;
                let rule = if stopped {
                    Rule::StoppedStays
                } else {
                    Rule::ClosedIsDead
                };
                allow(!self.rules.has(rule))?;
                mine.object = Some(Object {
                    sealed: false,
                    ..object
                });
                mine.stopped = 0;
            }
            Action::Move { alloc, to } => {
                let mine = &mut world.allocs[alloc];
                allow(mine.up && mine.owns())?;
                allow(mine.adders().next().is_none() || !self.rules.has(Rule::WaitForAdders))?;
                allow(mine.opens == 0 || !self.rules.has(Rule::StopWaitsForOpens))?;
                spend(&mut world.spent.moves, self.scenario.moves)?;
                let closed = mine.object.is_some_and(|object| object.sealed)
                    && mine.stopped != mine.route.epoch;
                let mut last = mine.last();
                if closed && !self.rules.has(Rule::MoveRepeatsFinals) {
                    last.generation = 0;
                }
                let request = Command::MoveSlot {
                    sid: mine.session,
                    epoch: mine.route.epoch,
                    last,
                    to,
                };
                if self.rules.has(Rule::StopSeals) {
                    mine.stopped = mine.route.epoch;
                    if let Some(object) = &mut mine.object {
                        object.sealed = true;
                    }
                }
                self.send(world, alloc, request);
            }
            _ => return None,
        }
        Some(())
    }

    /// An AllocSvr takes a reply: each may come late or again.
    pub(crate) fn receive(&self, world: &mut World, answer: Answer) {
        let mine = &mut world.allocs[usize::from(answer.process)];
        if !self.takes_from(mine, answer.cluster) {
            return;
        }
        match answer.reply {
            Reply::Session { nonce, sid } => {
                if mine.up && mine.nonce == nonce && mine.sessions & 1 << sid == 0 {
                    mine.join(answer.cluster);
                    mine.session = sid;
                    mine.sessions |= 1 << sid;
                    mine.lease = if self.rules.has(Rule::LeaseFromRenewalOnly) {
                        LEASE
                    } else {
                        0
                    };
                }
            }
            Reply::OpenRefused { nonce, .. } => mine.opens &= !(1 << nonce),
            Reply::Raised {
                generation, max, ..
            } => {
                let object = if self.rules.has(Rule::WidenOwnGeneration) {
                    mine.object_of(generation)
                } else {
                    mine.object.as_mut()
                };
                if let Some(object) = object {
                    object.max = object.max.max(max);
                }
            }
            Reply::Opened {
                sid,
                epoch,
                nonce,
                generation,
                base,
                max,
            } => {
                mine.opens &= !(1 << nonce);
                let old = self.rules.has(Rule::IgnoreOldReply) && generation <= mine.installed;
                if !mine.up || old {
                    return;
                }
                mine.installed = generation;
                let sealed = mine.stopped == epoch;
                let new = Object {
                    sid,
                    epoch,
                    generation,
                    last: base,
                    max,
                    sealed,
                };
                if let Some(mut before) = mine.object.replace(new) {
                    before.sealed |= self.rules.has(Rule::SealOlder);
                    let inside = mine
                        .adders()
                        .any(|call| call.generation == before.generation);
                    if inside {
                        mine.older = Some(before);
                    }
                }
            }
        }
    }
}
