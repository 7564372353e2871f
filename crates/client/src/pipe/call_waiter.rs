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

    /// Takes the results of all its items at once.
    pub(super) fn complete_all(&mut self, mut next_result: impl FnMut() -> ItemResult) {
        match &mut self.reply {
            ReplySlot::Single(sender) => {
                let result = next_result();
                if let Some(sender) = sender.take() {
                    // A caller that went away needs nothing.
                    let _ = sender.send(result);
                }
            }
            ReplySlot::Batch {
                sender,
                items,
                unanswered,
                ..
            } => {
                let all: Vec<ItemResult> = (0..*items).map(|_| next_result()).collect();
                *unanswered = 0;
                if let Some(sender) = sender.take() {
                    let _ = sender.send(CallResults::PerItem(all.into_iter()));
                }
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
            ReplySlot::Single(_) => self.complete_all(|| Ok(columns.answer_at(range.start))),
            ReplySlot::Batch {
                sender, unanswered, ..
            } => {
                *unanswered = 0;
                if let Some(sender) = sender.take() {
                    let _ = sender.send(CallResults::Columns(columns.clone(), range));
                }
            }
        }
    }

    /// Takes the result of the item at `index` of its own. Ignores a second answer to an item.
    pub(super) fn complete_item(&mut self, index: usize, result: ItemResult) {
        match &mut self.reply {
            ReplySlot::Single(_) => self.complete_all(|| result.clone()),
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
                if *unanswered == 0
                    && let Some(sender) = sender.take()
                {
                    let all: Vec<ItemResult> = results.drain(..).flatten().collect();
                    let _ = sender.send(CallResults::PerItem(all.into_iter()));
                }
            }
        }
    }

    /// Fails those of its items that were not answered.
    pub(super) fn fail_all(&mut self, failure: &AttemptError) {
        match &mut self.reply {
            ReplySlot::Single(None) | ReplySlot::Batch { sender: None, .. } => {}
            ReplySlot::Single(_) => self.complete_all(|| Err(Box::new(failure.clone()))),
            ReplySlot::Batch { items, results, .. } => {
                results.resize(*items, None);
                let unanswered: Vec<usize> =
                    (0..*items).filter(|i| results[*i].is_none()).collect();
                for index in unanswered {
                    self.complete_item(index, Err(Box::new(failure.clone())));
                }
            }
        }
    }

    /// Fails the caller if its attempt timed out; returns whether it did.
    pub(super) fn fail_expired(&mut self, now: Instant, address: &str) -> bool {
        let AttemptDeadline {
            expires_at,
            timeout,
        } = self.deadline;
        let is_answered = matches!(
            self.reply,
            ReplySlot::Single(None) | ReplySlot::Batch { sender: None, .. }
        );
        let is_expired = !is_answered && expires_at <= now;
        if is_expired {
            self.fail_all(&AttemptError::timed_out(address, timeout));
        }
        is_expired
    }
}
