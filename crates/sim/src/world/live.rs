//! After all faults have ended, everything must work again within bounds and stay calm.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

use seqsvr_core::id::SectionKey;
use seqsvr_core::state::State;

use super::World;
use crate::cluster::{Machine, name};
use crate::faults::{Order, supervise};
use crate::judge::live::{calm_call_max_ms, has_steady_leader, loose_section, unsettled};
use crate::operator::SECTION;
use crate::plan::What;

/// Length of the calm phase, ms.
const CALM_MS: u64 = 3_000;
/// Maximum time until nothing waits and all stores have applied the same entries, ms. Above it,
/// the run fails.
const SETTLED_MAX_MS: u64 = 5_000;
/// Time added to [`SETTLED_MAX_MS`] for each sequence, ms.
const SETTLED_EACH_MS: u64 = 200;
/// Maximum time until there are a cluster and its leader, ms. Above it, the run fails. An operator
/// that cannot finish a cluster within 15 s begins again with empty disks.
const MADE_MAX_MS: u64 = 40_000;
/// Maximum time until an end of a connection detects that the network discards what it sends, ms:
/// twice 3 s without a frame and 3 s without an answer to its ping, because the other end may send
/// one more answer and one more ping.
const EATEN_MAX_MS: u64 = 12_000;
/// Maximum time in which AllocSvrs close all sections and end, ms. Above it, the run fails.
const CLOSED_MAX_MS: u64 = 20_000;

impl World {
    /// Judges the cluster after all faults have ended.
    ///
    /// # Errors
    /// If the operating system provides no runtime.
    pub(super) fn live_on(&mut self) -> io::Result<()> {
        // An operator may still be initializing another cluster.
        let is_made = |world: &World| world.has_state(|state| state.cluster().is_some());
        if !self.turn_until(MADE_MAX_MS, is_made)? && self.broken.is_empty() {
            let stores = self.cluster.machines.values().filter_map(Machine::store);
            let views: Vec<_> = stores.map(|store| store.look()).collect();
            self.broken
                .push(format!("live: no cluster was made: {views:?}"));
        }
        let setup = &self.plan.setup;
        let wait = setup.lease_ms * 5 / 4;
        // Elections, takeovers, and calls that wait for their deadline of 5 s.
        let elections = 12 * 4 * setup.heartbeat_ms;
        let within = 2 * wait + 2 * setup.lease_ms + 10_000 + elections;
        let began = self.cluster.now;
        let tick = setup.tick_ms;
        let half = (within / 2 + self.eaten_ms()) / tick * tick;
        self.shared.stop_at.store(began + half, Relaxed);
        self.shared.is_last_round.store(true, Relaxed);
        let client_count = u64::from(self.plan.setup.clients);
        // The last round makes some calls for each key.
        let deadline = began + half + 3 * within / 2 + 200 * self.plan.load.keys;
        while self.shared.finished.load(Relaxed) < client_count && self.broken.is_empty() {
            self.calm_turn()?;
            if self.cluster.now == began + half {
                self.broken.extend(self.unregistered());
            }
            if self.cluster.now > deadline {
                let left = client_count - self.shared.finished.load(Relaxed);
                self.broken.push(format!(
                    "live: {left} clients had not all answers at {}",
                    self.cluster.now
                ));
            }
        }
        self.stay_calm()?;
        self.drain_one()?;
        self.close_all()
    }

    /// Returns how much longer connections with a discarded direction may live, ms: their ends ping
    /// each other.
    fn eaten_ms(&self) -> u64 {
        let eaten = self.plan.faults.iter().filter(|f| f.what == What::Eat);
        let last = eaten.map(|fault| fault.at_ms + EATEN_MAX_MS).max();
        last.unwrap_or(0).saturating_sub(self.plan.heal_at_ms)
    }

    fn calm_turn(&mut self) -> io::Result<()> {
        self.follow_operator()?;
        supervise(&mut self.cluster)?;
        self.turn();
        Ok(())
    }

    /// Runs turns until a condition holds. Returns whether it held within `ms`.
    fn turn_until(&mut self, ms: u64, is_done: impl Fn(&World) -> bool) -> io::Result<bool> {
        let deadline = self.cluster.now + ms;
        while !is_done(self) {
            if self.cluster.now > deadline || !self.broken.is_empty() {
                return Ok(false);
            }
            self.calm_turn()?;
        }
        Ok(true)
    }

    /// Judges the calm phase: no call fails or is slow, the leader stays, and everything settles.
    fn stay_calm(&mut self) -> io::Result<()> {
        let term = |world: &World| {
            let leader = world.cluster.leader();
            let machine = leader.and_then(|id| world.cluster.machines.get(&id));
            let store = machine.and_then(|machine| machine.store());
            store.map(|store| store.look().term)
        };
        let before = term(self);
        let max_ms = calm_call_max_ms(&self.plan.setup);
        self.shared.begin_calm(self.cluster.now + CALM_MS, max_ms);
        self.turn_until(CALM_MS, |_| false)?;
        let is_steady = has_steady_leader(&self.plan.setup);
        if self.broken.is_empty() && is_steady && term(self) != before {
            let text = format!("live: the leader of {before:?} changed in a calm world");
            self.broken.push(text);
        }
        let clients = u64::from(self.plan.setup.clients);
        let is_settled = |world: &World| {
            world.shared.calmed.load(Relaxed) == clients && unsettled(&world.cluster).is_none()
        };
        let within = SETTLED_MAX_MS + SETTLED_EACH_MS * self.plan.load.keys;
        if !self.turn_until(within, is_settled)? && self.broken.is_empty() {
            let what = unsettled(&self.cluster);
            let what = what.unwrap_or_else(|| String::from("a client has not all answers"));
            self.broken.push(format!("live: not settled: {what}"));
        }
        Ok(())
    }

    /// Drains the AllocSvr with most slots: nothing may remain of its windows.
    fn drain_one(&mut self) -> io::Result<()> {
        let (true, Some(owner)) = (self.can_be_tight(), self.cluster.owner()) else {
            return Ok(());
        };
        let drained = self.cluster.machines.get(&owner).and_then(Machine::alloc);
        let Some(view) = drained.map(|alloc| alloc.look()) else {
            return Ok(());
        };
        let Some(session) = view.session.map(|session| session.id) else {
            return Ok(());
        };
        let moved: BTreeSet<SectionKey> = view.sections.iter().map(|s| s.key).collect();
        // The cancellation of an earlier drain may have failed.
        let others = self.cluster.allocs().into_iter().filter(|id| *id != owner);
        let mut orders: Vec<Order> = others.map(|id| Order::Drain(name(id), true)).collect();
        orders.push(Order::Drain(name(owner), false));
        self.order(orders);
        let is_drained = |world: &World| {
            world.has_state(|state| state.slots().iter().all(|slot| slot.owner != Some(session)))
        };
        if !self.turn_until(CLOSED_MAX_MS, is_drained)? && self.broken.is_empty() {
            self.broken
                .push(format!("live: {} was not drained", name(owner)));
        }
        self.judge_ends(|key| moved.contains(&key));
        Ok(())
    }

    /// Shuts all AllocSvrs down in order: nothing may remain of any window.
    fn close_all(&mut self) -> io::Result<()> {
        if !self.can_be_tight() {
            return Ok(());
        }
        let leaving = self.cluster.allocs();
        self.order(leaving.into_iter().map(Order::Leave).collect());
        let is_closed = |world: &World| {
            world.has_state(|state| {
                state.sessions().count() == 0 && !state.sections().any(|(_, row)| row.open)
            })
        };
        if !self.turn_until(CLOSED_MAX_MS, is_closed)? && self.broken.is_empty() {
            let text = "live: AllocSvrs that were shut down left sessions or open sections";
            self.broken.push(String::from(text));
        }
        self.judge_ends(|_| true);
        Ok(())
    }

    /// Returns whether there is a leader and its state fulfills a condition.
    fn has_state(&self, is_one: impl Fn(&State) -> bool) -> bool {
        let leader = self.cluster.leader();
        let store = leader.and_then(|id| self.cluster.machines.get(&id)?.store());
        store.is_some_and(|store| store.with_state(is_one))
    }

    /// Returns whether planned ends of generations are judged: no call is in flight any more, and
    /// no clock beyond its bounds ended a lease.
    fn can_be_tight(&self) -> bool {
        self.broken.is_empty() && self.plan.has_bounded_clocks
    }

    fn judge_ends(&mut self, is_asked: impl Fn(SectionKey) -> bool) {
        if !self.broken.is_empty() {
            return;
        }
        let online = self.shared.online.lock();
        let cluster = self.shared.cluster.load(Relaxed);
        let highest = |uid| online.highest((cluster, uid));
        let loose = loose_section(&self.cluster, is_asked, u64::from(SECTION), highest);
        drop(online);
        self.broken
            .extend(loose.map(|loose| format!("invariant {loose}")));
    }

    /// Returns the rule that an AllocSvr without a session breaks.
    ///
    /// Also under load, an AllocSvr that was restarted gets a session in the end. Without a steady
    /// leader its earlier session may outlive any bound, because each new leader waits W again.
    fn unregistered(&self) -> Option<String> {
        if !has_steady_leader(&self.plan.setup) {
            return None;
        }
        let allocs = self.cluster.allocs();
        let mut machines = allocs.iter().filter_map(|id| self.cluster.machines.get(id));
        let without = machines.find(|machine| {
            let alloc = machine.alloc();
            alloc.is_none_or(|alloc| alloc.look().session.is_none())
        })?;
        Some(format!("live: {} has no session", name(without.id)))
    }
}
