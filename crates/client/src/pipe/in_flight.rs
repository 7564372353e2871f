//! A sent frame: which callers wait for which of its items, and how answers reach them.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::v1::pipe_response;
use tokio::time::Instant;

use crate::attempt::attempt_error::AttemptError;
use crate::pipe::answers::AnswerColumns;
use crate::pipe::call_waiter::CallWaiter;
use crate::pipe::frame_key::PipeOperation;

/// Time after the expiry of its last caller for which a frame may still be answered. A correct
/// server answers before; the items of a server that does not must not count forever.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(10);

/// Frame that was sent, with the callers that wait for its answer.
pub(super) struct InFlightFrame {
    operation: PipeOperation,
    item_count: usize,
    /// Some item requests other than one number.
    has_counts: bool,
    /// Least id that the answer may have; None: its ids need not rise, or it has none.
    least_id: Option<u64>,
    waiters: Vec<CallWaiter>,
    /// Earliest expiry among the callers that still wait.
    next_expiry: Option<Instant>,
    /// Expiry of the last caller.
    last_expiry: Instant,
    /// Items not answered.
    unanswered: usize,
}

impl InFlightFrame {
    pub(super) fn new(
        operation: PipeOperation,
        item_count: usize,
        has_counts: bool,
        least_id: Option<u64>,
        waiters: Vec<CallWaiter>,
        last_expiry: Instant,
    ) -> InFlightFrame {
        InFlightFrame {
            operation,
            item_count,
            has_counts,
            least_id,
            last_expiry,
            next_expiry: waiters
                .iter()
                .map(|waiter| waiter.deadline.expires_at)
                .min(),
            waiters,
            unanswered: item_count,
        }
    }

    /// Returns the number of items not answered.
    pub(super) fn unanswered_items(&self) -> usize {
        self.unanswered
    }

    /// Fails the callers whose attempt timed out; returns whether there were any.
    pub(super) fn fail_expired(&mut self, now: Instant, address: &str) -> bool {
        let mut has_expired = false;
        if self.next_expiry.is_some_and(|expiry| expiry <= now) {
            for waiter in &mut self.waiters {
                has_expired |= waiter.fail_expired(now, address);
            }
            let later = self.waiters.iter().map(|waiter| waiter.deadline.expires_at);
            self.next_expiry = later.filter(|expiry| *expiry > now).min();
        }
        has_expired
    }

    /// Returns whether its callers timed out so long ago that no answer is expected.
    pub(super) fn is_abandoned(&self, now: Instant) -> bool {
        now >= self.last_expiry + ABANDON_TIMEOUT
    }

    /// Fails all items that are not answered.
    pub(super) fn fail_all(&mut self, failure: &AttemptError) {
        self.waiters
            .iter_mut()
            .for_each(|waiter| waiter.fail_all(failure));
        self.unanswered = 0;
    }

    /// Delivers an answer to the callers that wait for it; returns how many items it answered. An
    /// answer that breaks the contract fails the whole frame.
    pub(super) fn deliver(
        &mut self,
        address: &str,
        items: &[u32],
        answer: pipe_response::Answer,
    ) -> usize {
        let before = self.unanswered;
        let columns = match answer {
            pipe_response::Answer::Rejected(error) => {
                self.fail_all(&AttemptError::from_item_error(address, &error));
                return before;
            }
            pipe_response::Answer::Next(next) if self.operation == PipeOperation::Next => {
                AnswerColumns::from(next)
            }
            pipe_response::Answer::Current(current) if self.operation == PipeOperation::Current => {
                AnswerColumns::from(current)
            }
            // Ids come all at once.
            pipe_response::Answer::Ids(ids)
                if self.operation == PipeOperation::Ids && items.is_empty() =>
            {
                AnswerColumns::from(ids)
            }
            _ => {
                self.fail_all(&AttemptError::malformed_reply(
                    address,
                    "answer kind does not match the request",
                ));
                return before;
            }
        };
        let answered = match items.is_empty() {
            true => self.item_count,
            false => items.len(),
        };
        let is_current = self.operation == PipeOperation::Current;
        let has_shape = columns.has_shape(answered, self.has_counts && !is_current, is_current);
        if !has_shape || !are_valid_indexes(items, self.item_count) {
            self.fail_all(&AttemptError::malformed_reply(
                address,
                "columns differ in length",
            ));
            return before;
        }
        if self.least_id.is_some_and(|least| !columns.rise_from(least)) {
            self.fail_all(&AttemptError::malformed_reply(
                address,
                "ids do not rise from the floor of the request",
            ));
            return before;
        }
        if items.is_empty() && columns.errors.is_empty() {
            let (columns, mut end) = (Arc::new(columns), 0);
            for waiter in &mut self.waiters {
                let begin = end;
                end += waiter.item_count();
                waiter.complete_from_columns(&columns, begin..end);
            }
            self.unanswered = 0;
            return before;
        }
        let mut errors = columns.errors.iter().peekable();
        let mut result_at = |at: usize| match errors.next_if(|error| error.index as usize == at) {
            Some(error) => Err(Box::new(AttemptError::from_item_error(address, error))),
            None => Ok(columns.answer_at(at)),
        };
        if items.is_empty() {
            let mut at = 0;
            for waiter in &mut self.waiters {
                waiter.complete_all(|| {
                    at += 1;
                    result_at(at - 1)
                });
            }
            self.unanswered = 0;
        } else {
            let (mut waiters, mut begin) = (self.waiters.iter_mut(), 0);
            let mut waiter = waiters.next();
            for (at, item) in items.iter().enumerate() {
                let item = *item as usize;
                while let Some(past) = waiter.as_ref().filter(|w| begin + w.item_count() <= item) {
                    begin += past.item_count();
                    waiter = waiters.next();
                }
                if let Some(waiter) = waiter.as_mut() {
                    waiter.complete_item(item - begin, result_at(at));
                }
            }
            self.unanswered = self.unanswered.saturating_sub(answered);
        }
        before - self.unanswered
    }
}

/// Returns whether indexes rise and stay below `item_count`.
fn are_valid_indexes(indexes: &[u32], item_count: usize) -> bool {
    indexes.is_sorted_by(|a, b| a < b)
        && indexes
            .last()
            .is_none_or(|last| (*last as usize) < item_count)
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::attempt::attempt_deadline::AttemptDeadline;

    #[test]
    fn in_flight_frame_without_answer_is_abandoned_after_its_callers() {
        let now = Instant::now();
        let after = |ms| {
            let timeout = Duration::from_millis(ms);
            let expires_at = now + timeout;
            let deadline = AttemptDeadline {
                expires_at,
                timeout,
            };
            (expires_at, deadline)
        };
        let (mut waiters, mut receivers) = (Vec::new(), Vec::new());
        for ms in [100, 300] {
            let (sender, receiver) = oneshot::channel();
            waiters.push(CallWaiter::single(sender, after(ms).1));
            receivers.push(receiver);
        }
        let mut flight =
            InFlightFrame::new(PipeOperation::Next, 2, false, None, waiters, after(300).0);
        assert!(!flight.fail_expired(after(99).0, "a:1"));
        assert!(flight.fail_expired(after(100).0, "a:1"));
        let late = receivers[0].try_recv().unwrap().unwrap_err();
        assert!(late.unanswered && late.message.contains("no answer from a:1"));
        assert!(receivers[1].try_recv().is_err(), "it still waits");
        assert!(flight.fail_expired(after(300).0, "a:1"));
        assert!(receivers[1].try_recv().unwrap().is_err());
        assert!(!flight.fail_expired(after(400).0, "a:1"), "no caller waits");
        assert_eq!(flight.unanswered_items(), 2, "an answer may still come");
        assert!(!flight.is_abandoned(after(10_299).0));
        assert!(flight.is_abandoned(after(10_300).0));
    }
}
