//! Store time: the time of the cluster, by which grants of workers are cut.
//!
//! Clocks decide only how fresh ids are, never whether they are unique. The wall clocks of the
//! stores meet in `clock_agreement.rs`, become a time that never falls in `time_line.rs`, and enter
//! the state as a command at the head of an entry whose commands need the time
//! ([`StoreTime::stamp`]). So one reading serves a whole entry, and all replicas apply the same.

mod clock_agreement;
mod time_line;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::command::{Batch, Command};
use seqsvr_core::family::IdsCommand;
use seqsvr_core::state::TimeRow;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::clock::{WallClock, WallReading};
use crate::store_time::clock_agreement::ClockAgreement;
use crate::store_time::time_line::TimeLine;

pub(crate) use time_line::{OFF_TIME_MAX_NS, SuspectClocks};

pub(crate) const NS_PER_MS: u64 = 1_000_000;
/// Maximum wait of a new leader for the clocks of the others; after it, its own decides.
const SETTLE_MAX_NS: u64 = 1_000_000_000;
/// Attempts of a command to read the time of a new term, and the pause between two: together longer
/// than that wait.
const SETTLE_ATTEMPTS: u32 = 30;
const SETTLE_INTERVAL: Duration = Duration::from_millis(50);

/// What a leader knows of its term.
#[derive(Clone, Debug)]
pub(crate) struct LeaderView {
    pub(crate) term: u64,
    /// Store time in the state, which has everything of the terms before.
    pub(crate) time: TimeRow,
    pub(crate) own_id: u64,
    pub(crate) voters: Vec<u64>,
}

/// Reason why there is no store time now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoTime {
    /// This leader has not read the clocks of the other stores yet.
    Settling,
    /// The clocks and the time in the state are too far apart.
    Suspect(SuspectClocks),
}

/// Store time of this process, while it leads.
pub(crate) struct StoreTime {
    clock: WallClock,
    keeper: Mutex<TimeKeeper>,
    /// Requests the clocks of the other stores at once.
    request_due: Notify,
}

#[derive(Default)]
struct TimeKeeper {
    agreement: ClockAgreement,
    term: Option<TermTime>,
}

/// Store time of one term, or of the part of it after a set-back.
struct TermTime {
    term: u64,
    resets: u64,
    began: WallReading,
    /// None: the clocks are not read yet.
    line: Option<TimeLine>,
}

impl StoreTime {
    /// Makes the store time of a process with this clock.
    pub(crate) fn new(clock: WallClock) -> StoreTime {
        StoreTime {
            clock,
            keeper: Mutex::default(),
            request_due: Notify::new(),
        }
    }

    /// Reads the wall clock of this machine.
    pub(crate) fn read_clock(&self) -> WallReading {
        (self.clock)()
    }

    /// Records the wall clock of another store; `boot_ns` is the middle of the round trip.
    pub(crate) fn record_clock(&self, store: u64, unix_ns: u64, boot_ns: u64) {
        let answer = WallReading { unix_ns, boot_ns };
        self.keeper.lock().agreement.record(store, answer);
    }

    /// Returns the distances of the other stores' clocks from this one's, in milliseconds.
    pub(crate) fn clock_offsets_ms(&self) -> BTreeMap<u64, i64> {
        self.keeper.lock().agreement.offsets_ms(self.read_clock())
    }

    /// Returns the time on which the clocks agree now, as Unix time in milliseconds; the greatest
    /// one that their median can show.
    pub(crate) fn agreed_ms(&self, view: &LeaderView) -> u64 {
        let (mut keeper, now) = (self.keeper.lock(), self.read_clock());
        let agreed = keeper.agreement.agree(now, view.own_id, &view.voters);
        agreed.latest_ns / NS_PER_MS
    }

    /// Returns store time now, as Unix time in milliseconds.
    pub(crate) fn read(&self, view: &LeaderView) -> Result<u64, NoTime> {
        let (mut keeper, now) = (self.keeper.lock(), self.read_clock());
        let agreed = keeper.agreement.agree(now, view.own_id, &view.voters);
        let term = keeper.enter_term(view, now);
        let line = match &mut term.line {
            Some(line) => line,
            line => {
                let waited = ns_since(term.began, now) >= SETTLE_MAX_NS;
                if !agreed.is_confirmed && view.voters.len() > 1 && !waited {
                    return Err(NoTime::Settling);
                }
                let high_ms = view.time.high_ms;
                let state_ns = (high_ms > 0).then(|| high_ms.saturating_mul(NS_PER_MS));
                line.insert(TimeLine::begin(state_ns, now, agreed))
            }
        };
        let unix_ns = line.advance(now, agreed);
        match line.suspect() {
            Some(suspect) if suspect.stops_grants => Err(NoTime::Suspect(suspect)),
            _ => Ok(unix_ns / NS_PER_MS),
        }
    }

    /// Forgets the term that has ended.
    pub(crate) fn leave_term(&self) {
        self.keeper.lock().term = None;
    }

    /// Waits until a command needs the time and the clocks of the other stores are not read yet.
    pub(crate) async fn wait_for_request(&self) {
        self.request_due.notified().await;
    }

    /// Waits for the store time of a term that has just begun.
    ///
    /// # Errors
    /// The clocks are suspect, or the term has ended.
    pub(crate) async fn settle(&self, view: &LeaderView) -> Result<(), NoTime> {
        for _ in 0..SETTLE_ATTEMPTS {
            match self.read(view) {
                Err(NoTime::Settling) => {
                    self.request_due.notify_one();
                    sleep(SETTLE_INTERVAL).await;
                }
                read => return read.map(drop),
            }
        }
        Err(NoTime::Settling)
    }

    /// Returns why the clocks are not followed, if they are not.
    pub(crate) fn suspect(&self) -> Option<SuspectClocks> {
        let keeper = self.keeper.lock();
        keeper.term.as_ref()?.line?.suspect()
    }

    /// Puts store time at the head of an entry whose commands need it. Returns whether it did; the
    /// reply to that command comes first then.
    pub(crate) fn stamp(
        &self,
        batch: &mut Batch,
        view: impl FnOnce() -> Option<LeaderView>,
    ) -> bool {
        if !batch.commands.iter().any(needs_time) {
            return false;
        }
        // A command was checked before. Without a time it applies at that of the state.
        let reading = view().and_then(|view| Some((self.read(&view).ok()?, view.time.resets)));
        let Some((now_ms, resets)) = reading else {
            return false;
        };
        let time = Command::Ids(IdsCommand::AdvanceTime { now_ms, resets });
        batch.commands.insert(0, time);
        true
    }
}

impl TimeKeeper {
    /// Returns the time of this term, or of a later one: a view may be read before a set-back and
    /// used after it.
    fn enter_term(&mut self, view: &LeaderView, now: WallReading) -> &mut TermTime {
        let is_current =
            |known: &TermTime| (known.term, known.resets) >= (view.term, view.time.resets);
        if !self.term.as_ref().is_some_and(is_current) {
            self.term = None;
        }
        self.term.get_or_insert(TermTime {
            term: view.term,
            resets: view.time.resets,
            began: now,
            line: None,
        })
    }
}

/// Returns whether a command does something else at another time.
pub(crate) fn needs_time(command: &Command) -> bool {
    matches!(
        command,
        Command::Ids(
            IdsCommand::CreateFamily { .. }
                | IdsCommand::RaiseFamily { .. }
                | IdsCommand::AcquireWorker(_)
                | IdsCommand::RenewWorker { .. }
        )
    )
}

/// Returns how much time has passed by BOOTTIME between two readings of one process.
fn ns_since(before: WallReading, now: WallReading) -> u64 {
    now.boot_ns.saturating_sub(before.boot_ns)
}

#[cfg(test)]
mod tests;
