//! One caller of a frame: which items it waits for, until when, and how it receives their results.

use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::attempt::attempt_deadline::AttemptDeadline;
use crate::attempt::attempt_error::AttemptError;
use crate::pipe::answers::{AnswerColumns, CallResults, ItemResult};

/// One caller, which waits for neighboring items of a frame.
pub(super) struct CallWaiter {
    reply: ReplySlot,
    pub(super) deadline: AttemptDeadline,
}

/// Destination of the results of a caller; without a sender once it has them.
enum ReplySlot {
    Single(Option<oneshot::Sender<ItemResult>>),
    Batch {
        sender: Option<oneshot::Sender<CallResults>>,
        items: usize,
        results: Vec<Option<ItemResult>>,
        unanswered: usize,
    },
}

impl CallWaiter {
    pub(super) fn single(
        sender: oneshot::Sender<ItemResult>,
        deadline: AttemptDeadline,
    ) -> CallWaiter {
        let reply = ReplySlot::Single(Some(sender));
        CallWaiter { reply, deadline }
    }

    pub(super) fn batch(
        sender: oneshot::Sender<CallResults>,
        items: usize,
        deadline: AttemptDeadline,
    ) -> CallWaiter {
        let reply = ReplySlot::Batch {
            sender: Some(sender),
            items,
            results: Vec::new(),
            unanswered: items,
        };
        CallWaiter { reply, deadline }
    }

    /// Returns how many items of the frame are of this caller.
    pub(super) fn item_count(&self) -> usize {
        match &self.reply {
            ReplySlot::Single(_) => 1,
            ReplySlot::Batch { items, .. } => *items,
        }
    }

    /// Returns whether it has the results of all its items.
    fn is_answered(&self) -> bool {
        matches!(
            self.reply,
            ReplySlot::Single(None) | ReplySlot::Batch { sender: None, .. }
        )
    }

    /// Takes the results of all its items at once.
    pub(super) fn complete_all(&mut self, mut next_result: impl FnMut() -> ItemResult) {
        match &mut self.reply {
            ReplySlot::Single(sender) => send_results(sender, next_result()),
            ReplySlot::Batch { sender, items, .. } => {
                let all: Vec<ItemResult> = (0..*items).map(|_| next_result()).collect();
                send_results(sender, CallResults::PerItem(all.into_iter()));
            }
        }
    }

    /// Takes the results of all its items: this range of columns without errors.
    pub(super) fn complete_from_columns(
        &mut self,
        columns: &Arc<AnswerColumns>,
        range: Range<usize>,
    ) {
        match &mut self.reply {
            ReplySlot::Single(sender) => send_results(sender, Ok(columns.answer_at(range.start))),
            ReplySlot::Batch { sender, .. } => {
                send_results(sender, CallResults::Columns(columns.clone(), range));
            }
        }
    }

    /// Takes the result of the item at `index` of its own. Ignores a second answer to an item.
    pub(super) fn complete_item(&mut self, index: usize, result: ItemResult) {
        match &mut self.reply {
            ReplySlot::Single(sender) => send_results(sender, result),
            // The caller timed out, or has all its answers.
            ReplySlot::Batch { sender: None, .. } => {}
            ReplySlot::Batch {
                sender,
                items,
                results,
                unanswered,
            } => {
                results.resize(*items, None);
                if results[index].is_none() {
                    *unanswered -= 1;
                    results[index] = Some(result);
                }
                if *unanswered == 0 {
                    let all: Vec<ItemResult> = results.drain(..).flatten().collect();
                    send_results(sender, CallResults::PerItem(all.into_iter()));
                }
            }
        }
    }

    /// Fails those of its items that were not answered.
    pub(super) fn fail_all(&mut self, failure: &AttemptError) {
        if let ReplySlot::Batch {
            sender,
            items,
            unanswered,
            ..
        } = &mut self.reply
            && unanswered == items
        {
            let failure = Box::new(failure.clone());
            return send_results(sender, CallResults::Failed(failure, *items));
        }
        for index in 0..self.item_count() {
            if self.is_answered() {
                return;
            }
            self.complete_item(index, Err(Box::new(failure.clone())));
        }
    }

    /// Fails the caller if its attempt timed out; returns whether it did.
    pub(super) fn fail_expired(&mut self, now: Instant, address: &str) -> bool {
        let AttemptDeadline {
            expires_at,
            timeout,
        } = self.deadline;
        let is_expired = !self.is_answered() && expires_at <= now;
        if is_expired {
            self.fail_all(&AttemptError::timed_out(address, timeout));
        }
        is_expired
    }
}

/// Sends the results to the caller, unless it has them.
fn send_results<T>(sender: &mut Option<oneshot::Sender<T>>, results: T) {
    if let Some(sender) = sender.take() {
        // A caller that went away needs nothing.
        let _ = sender.send(results);
    }
}
