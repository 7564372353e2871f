//! Calls: entering a section object, taking a number, the check, the answer.
//!
//! Invariant (design 5.4): a number is answered only after a check, later than the request's
//! arrival, that the session and epoch of the section object are still the newest this process
//! knows and that its lease holds.
//! The check and the answer are one step: an answer that arrives later only asks less of others.
//! For the same reason a request counts as begun when it enters.

use crate::alloc_process::{Call, Kind, Object};
use crate::rules::Rule;
use crate::scenario::Clocks;
use crate::store::Slot;
use crate::world::{Action, LEASE, Protocol, World, allow};

impl Protocol {
    pub(crate) fn call(&self, world: &mut World, action: Action) -> Option<()> {
        match action {
            Action::Enter { alloc, kind, by } => self.enter(world, alloc, kind, by)?,
            Action::Take { alloc, call } => self.take(world, alloc, call)?,
            Action::EarlyCheck { alloc } => {
                let object = world.allocs[alloc].object?;
                let Object {
                    sid,
                    epoch,
                    generation,
                    ..
                } = object;
                let call = Call {
                    kind: Kind::Next,
                    sid,
                    epoch,
                    generation,
                    floor: 0,
                    number: None,
                    checked: false,
                    cluster: world.allocs[alloc].cluster,
                };
                let early = self.rules.has(Rule::CheckAfterReceive)
                    && self.rules.has(Rule::StrictAfterArrival);
                allow(!early && self.check(world, alloc, &call))?;
                world.allocs[alloc].passed = true;
            }
            Action::CheckBeforeTake { alloc, call } => {
                let asked = world.allocs[alloc].calls[call];
                let before = asked.number.is_none() && !self.rules.has(Rule::CheckAfterTake);
                allow(before && self.check(world, alloc, &asked))?;
                world.allocs[alloc].calls[call].checked = true;
            }
            // The number was taken before the request that gets it came in.
            Action::ReceiveLate { alloc, call } => {
                let late = &mut world.allocs[alloc].calls[call];
                allow(!self.rules.has(Rule::TakeAfterReceive) && late.number.is_some())?;
                late.floor = world.ledgers.of(late.cluster).shown;
            }
            Action::Reply { alloc, call } => {
                let asked = world.allocs[alloc].calls[call];
                let number = asked.number?;
                let mine = &world.allocs[alloc];
                allow(mine.passed || asked.checked || self.check(world, alloc, &asked))?;
                world.allocs[alloc].calls.remove(call);
                let ledger = world.ledgers.of_mut(asked.cluster);
                match asked.kind {
                    Kind::Next => ledger.hand(number, asked.floor),
                    Kind::Current => ledger.disorder |= number < asked.floor,
                    Kind::RaiseTo => {}
                }
                ledger.shown = ledger.shown.max(number);
            }
            // A faster clock might fail the check sooner: for others that is as good as a call
            // that is never answered, and nothing obliges it to be.
            Action::Burn { alloc, call } => {
                let asked = world.allocs[alloc].calls[call];
                asked.number?;
                allow(!self.check(world, alloc, &asked))?;
                world.allocs[alloc].calls.remove(call);
            }
            _ => return None,
        }
        Some(())
    }

    /// A call of a caller of cluster `by`.
    fn enter(&self, world: &mut World, alloc: usize, kind: Kind, by: u8) -> Option<()> {
        let mine = &mut world.allocs[alloc];
        allow(self.serves(mine, by))?;
        let object = mine.object?;
        let raising = kind == Kind::RaiseTo && !self.rules.has(Rule::RaiseToInMemory);
        allow(
            mine.calls.len() < self.scenario.calls
                && (!object.sealed || kind == Kind::Current || raising),
        )?;
        let Object {
            sid,
            epoch,
            generation,
            ..
        } = object;
        let floor = world.ledgers.of(by).shown;
        mine.calls.push(Call {
            kind,
            sid,
            epoch,
            generation,
            floor,
            number: None,
            checked: false,
            cluster: by,
        });
        if self.scenario.adders && kind == Kind::Next {
            return Some(());
        }
        let call = mine.calls.len() - 1;
        self.take(world, alloc, call)?;
        if self.scenario.prompt {
            self.call(world, Action::Reply { alloc, call })?;
        }
        Some(())
    }

    fn take(&self, world: &mut World, alloc: usize, call: usize) -> Option<()> {
        let mine = &mut world.allocs[alloc];
        let ledger = world.ledgers.of_mut(mine.cluster);
        let Call {
            kind,
            generation,
            number: None,
            ..
        } = mine.calls[call]
        else {
            return None;
        };
        let object = mine.object_of(generation)?;
        let number = match kind {
            Kind::Next => {
                allow(object.last < object.max)?;
                object.last += 1;
                object.last
            }
            Kind::Current => object.last,
            Kind::RaiseTo => {
                if self.rules.has(Rule::RaiseToInMemory) {
                    object.last = object.max;
                }
                object.max
            }
        };
        ledger.top = ledger.top.max(object.last);
        mine.calls[call].number = Some(number);
        if !mine.adders().any(|call| {
            mine.older
                .is_some_and(|older| older.generation == call.generation)
        }) {
            mine.older = None;
        }
        Some(())
    }

    /// The check of design 5.4, or in strict mode the confirmation of 5.9.
    fn check(&self, world: &World, alloc: usize, call: &Call) -> bool {
        let mine = &world.allocs[alloc];
        if self.scenario.strict {
            let stored = if self.rules.has(Rule::StrictObject) {
                Slot {
                    epoch: call.epoch,
                    owner: call.sid,
                }
            } else {
                Slot {
                    epoch: mine.route.epoch,
                    owner: mine.session,
                }
            };
            return world.store.slot == stored && world.store.lives(stored.owner);
        }
        let bounded = self.scenario.clocks == Clocks::Bounded && mine.timed(&self.scenario);
        if bounded && mine.lease >= LEASE && self.rules.has(Rule::CheckLease) {
            return false;
        }
        if call.kind == Kind::Current && self.rules.has(Rule::CurrentWhileServed) {
            let served = mine
                .object
                .is_some_and(|object| !object.sealed && object.generation == call.generation);
            if !served {
                return false;
            }
        }
        if !self.rules.has(Rule::CheckObject) {
            return mine.owns();
        }
        (call.sid == mine.session || mine.session != 0 && !self.rules.has(Rule::CheckSession))
            && (call.epoch == mine.route.epoch || !self.rules.has(Rule::CheckEpoch))
    }
}
