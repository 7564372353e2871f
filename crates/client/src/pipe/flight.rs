//! A sent frame: which callers wait for which of its items, and how answers reach them.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::v1::pipe_response;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::pipe::answers::{Answers, Columns, Entry};
use crate::pipe::frame::Asks;

/// How long after its last caller gave up a frame may still be answered. A correct server answers
/// before; a place must not stay taken for one that is not.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

/// How long a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) until: Instant,
    /// The time at the beginning, for the error.
    pub(crate) time: Duration,
}

/// One caller, which waits for neighboring items of a frame.
pub(super) struct Waiter {
    to: To,
    patience: Patience,
}

enum To {
    One(Option<oneshot::Sender<Entry>>),
    Many {
        sender: Option<oneshot::Sender<Answers>>,
        items: usize,
        got: Vec<Option<Entry>>,
        left: usize,
    },
}

impl Waiter {
    pub(super) fn one(sender: oneshot::Sender<Entry>, patience: Patience) -> Waiter {
        let to = To::One(Some(sender));
        Waiter { to, patience }
    }

    pub(super) fn many(
        sender: oneshot::Sender<Answers>,
        items: usize,
        patience: Patience,
    ) -> Waiter {
        let to = To::Many {
            sender: Some(sender),
            items,
            got: Vec::new(),
            left: items,
        };
        Waiter { to, patience }
    }

    fn items(&self) -> usize {
        match &self.to {
            To::One(_) => 1,
            To::Many { items, .. } => *items,
        }
    }

    /// Takes the results of all its items at once.
    fn take_all(&mut self, mut entries: impl FnMut() -> Entry) {
        match &mut self.to {
            To::One(sender) => {
                let entry = entries();
                if let Some(sender) = sender.take() {
                    // A caller that went away needs nothing.
                    let _ = sender.send(entry);
                }
            }
            To::Many {
                sender,
                items,
                left,
                ..
            } => {
                let all: Vec<Entry> = (0..*items).map(|_| entries()).collect();
                *left = 0;
                if let Some(sender) = sender.take() {
                    let _ = sender.send(Answers::Each(all.into_iter()));
                }
            }
        }
    }

    /// Takes the results of all its items, which are these of columns without errors.
    fn take_whole(&mut self, columns: &Arc<Columns>, at: Range<usize>) {
        match &mut self.to {
            To::One(_) => self.take_all(|| Ok(columns.got(at.start))),
            To::Many { sender, left, .. } => {
                *left = 0;
                if let Some(sender) = sender.take() {
                    let _ = sender.send(Answers::Whole(columns.clone(), at));
                }
            }
        }
    }

    /// Takes the result of one of its items, by place. A second answer to an item is ignored.
    fn take(&mut self, at: usize, entry: Entry) {
        match &mut self.to {
            To::One(_) => self.take_all(|| entry.clone()),
            // Its time is over, or all of it was answered.
            To::Many { sender: None, .. } => {}
            To::Many {
                sender,
                items,
                got,
                left,
            } => {
                got.resize(*items, None);
                if got[at].is_none() {
                    *left -= 1;
                    got[at] = Some(entry);
                }
                if *left == 0
                    && let Some(sender) = sender.take()
                {
                    let all: Vec<Entry> = got.drain(..).flatten().collect();
                    let _ = sender.send(Answers::Each(all.into_iter()));
                }
            }
        }
    }

    /// Ends those of its items that were not answered.
    pub(super) fn fail(&mut self, failure: &Failure) {
        match &mut self.to {
            To::One(None) | To::Many { sender: None, .. } => {}
            To::One(_) => self.take_all(|| Err(Box::new(failure.clone()))),
            To::Many { items, got, .. } => {
                got.resize(*items, None);
                let open: Vec<usize> = (0..*items).filter(|at| got[*at].is_none()).collect();
                for at in open {
                    self.take(at, Err(Box::new(failure.clone())));
                }
            }
        }
    }

    /// Ends the caller if its time is over; returns whether it did.
    pub(super) fn fail_late(&mut self, now: Instant, address: &str) -> bool {
        let Patience { until, time } = self.patience;
        let open = !matches!(self.to, To::One(None) | To::Many { sender: None, .. });
        let late = open && until <= now;
        if late {
            self.fail(&Failure::silent(address, time));
        }
        late
    }
}

/// A frame that was sent.
pub(super) struct Flight {
    asks: Asks,
    items: usize,
    counted: bool,
    waiters: Vec<Waiter>,
    /// When the first of its callers gives up, among those that still wait.
    first_until: Option<Instant>,
    /// When the last of its callers gives up.
    until: Instant,
    /// Items not answered.
    left: usize,
}

impl Flight {
    pub(super) fn new(
        asks: Asks,
        items: usize,
        counted: bool,
        waiters: Vec<Waiter>,
        until: Instant,
    ) -> Flight {
        Flight {
            asks,
            items,
            counted,
            until,
            first_until: waiters.iter().map(|waiter| waiter.patience.until).min(),
            waiters,
            left: items,
        }
    }

    /// Returns the number of items not answered.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Ends the callers whose time is over; returns whether there were any.
    pub(super) fn fail_late(&mut self, now: Instant, address: &str) -> bool {
        let mut ended = false;
        if self.first_until.is_some_and(|until| until <= now) {
            for waiter in &mut self.waiters {
                ended |= waiter.fail_late(now, address);
            }
            let later = self.waiters.iter().map(|waiter| waiter.patience.until);
            self.first_until = later.filter(|until| *until > now).min();
        }
        ended
    }

    /// Returns whether no caller has waited for it for so long that no answer will come.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.until + FORGOTTEN_AFTER
    }

    /// Ends all items that are left.
    pub(super) fn fail(&mut self, failure: &Failure) {
        self.waiters
            .iter_mut()
            .for_each(|waiter| waiter.fail(failure));
        self.left = 0;
    }

    /// Hands over an answer to the callers that wait for it; returns how many items it answered. An
    /// answer that breaks the contract fails the whole frame.
    pub(super) fn answer(
        &mut self,
        address: &str,
        items: &[u32],
        answer: pipe_response::Answer,
    ) -> usize {
        let before = self.left;
        let columns = match answer {
            pipe_response::Answer::Refused(error) => {
                self.fail(&Failure::from_item(address, &error));
                return before;
            }
            pipe_response::Answer::Next(next) if self.asks == Asks::Next => Columns::from(next),
            pipe_response::Answer::Current(current) if self.asks == Asks::Current => {
                Columns::from(current)
            }
            _ => {
                self.fail(&Failure::malformed(address, "another kind of answer"));
                return before;
            }
        };
        let n = match items.is_empty() {
            true => self.items,
            false => items.len(),
        };
        let current = self.asks == Asks::Current;
        let fit = columns.fit(n, self.counted && !current, current);
        if !fit || !rising_below(items, self.items) {
            self.fail(&Failure::malformed(address, "columns of unequal length"));
            return before;
        }
        if items.is_empty() && columns.errors.is_empty() {
            let (columns, mut at) = (Arc::new(columns), 0);
            for waiter in &mut self.waiters {
                let begin = at;
                at += waiter.items();
                waiter.take_whole(&columns, begin..at);
            }
            self.left = 0;
            return before;
        }
        let mut errors = columns.errors.iter().peekable();
        let mut entry = |at: usize| match errors.next_if(|error| error.index as usize == at) {
            Some(error) => Err(Box::new(Failure::from_item(address, error))),
            None => Ok(columns.got(at)),
        };
        if items.is_empty() {
            let mut at = 0;
            for waiter in &mut self.waiters {
                waiter.take_all(|| {
                    at += 1;
                    entry(at - 1)
                });
            }
            self.left = 0;
        } else {
            let (mut waiters, mut begin) = (self.waiters.iter_mut(), 0);
            let mut waiter = waiters.next();
            for (at, item) in items.iter().enumerate() {
                let item = *item as usize;
                while let Some(past) = waiter.as_ref().filter(|w| begin + w.items() <= item) {
                    begin += past.items();
                    waiter = waiters.next();
                }
                if let Some(waiter) = waiter.as_mut() {
                    waiter.take(item - begin, entry(at));
                }
            }
            self.left = self.left.saturating_sub(n);
        }
        before - self.left
    }
}

/// Returns whether indices rise and stay below `n`.
fn rising_below(items: &[u32], n: usize) -> bool {
    items.is_sorted_by(|a, b| a < b) && items.last().is_none_or(|last| (*last as usize) < n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_never_answered_is_forgotten_after_its_callers() {
        let now = Instant::now();
        let after = |ms| {
            let time = Duration::from_millis(ms);
            let until = now + time;
            (until, Patience { until, time })
        };
        let (mut senders, mut receivers) = (Vec::new(), Vec::new());
        for ms in [100, 300] {
            let (sender, receiver) = oneshot::channel();
            senders.push(Waiter::one(sender, after(ms).1));
            receivers.push(receiver);
        }
        let mut flight = Flight::new(Asks::Next, 2, false, senders, after(300).0);
        assert!(!flight.fail_late(after(99).0, "a:1"));
        assert!(flight.fail_late(after(100).0, "a:1"));
        let late = receivers[0].try_recv().unwrap().unwrap_err();
        assert!(late.unanswered && late.message.contains("no answer from a:1"));
        assert!(receivers[1].try_recv().is_err(), "it still waits");
        assert!(flight.fail_late(after(300).0, "a:1"));
        assert!(receivers[1].try_recv().unwrap().is_err());
        assert!(!flight.fail_late(after(400).0, "a:1"), "nobody waits");
        assert_eq!(flight.left(), 2, "an answer may still come");
        assert!(!flight.is_over(after(10_299).0));
        assert!(flight.is_over(after(10_300).0));
    }
}
