//! The step of a connection that is in a transaction: queues commands, and executes them at EXEC.

use std::io;
use std::time::Duration;

use seqsvr_net::LocalSequence;
use seqsvr_proto::limits::CALL_TIMEOUT_DEFAULT;
use tokio::time::Instant;

use super::{ActiveConnection, StepResult};
use crate::redis::command_batch::CommandBatch;
use crate::redis::shared::TOO_MANY_BYTES;
use crate::redis::transaction::{QueueOutcome, Transaction};

/// Time of EXEC, the double of one call, after which it sends no further commands.
const EXECUTION_TIMEOUT: Duration = CALL_TIMEOUT_DEFAULT.saturating_mul(2);
/// The reply to a command of a transaction that was not sent.
const TOO_LATE: &str = "TRYAGAIN EXEC took longer than 10 s: its servers are slow, and nothing was sent for this command; send it again";

impl<S: LocalSequence> ActiveConnection<'_, S> {
    /// Queues the next requests, up to one that ends the transaction. The connection puts the
    /// transaction back if none does.
    pub(super) async fn continue_transaction(
        &mut self,
        mut transaction: Box<Transaction>,
    ) -> io::Result<StepResult> {
        // The queue grows by a copy of the requests at most, and by the places of their words.
        let growth = 2 * self.pending.data.len();
        let held = self.held_bytes() + transaction.held_bytes();
        let has_room = self.reservation.try_resize(held + growth);
        let (pending, replies) = (&mut self.pending, &mut self.socket.replies);
        let identity = &mut self.session.identity;
        let mut words: Vec<&[u8]> = Vec::new();
        let mut index = pending.next_index;
        let mut end = None;
        while end.is_none() && index < pending.parser.request_count() {
            words.clear();
            words.extend(pending.parser.request_words(index, &pending.data));
            index += 1;
            // An empty request has no answer, as in Redis.
            if words.is_empty() {
                continue;
            }
            match transaction.add_command(&words, has_room) {
                QueueOutcome::Queued => replies.write_simple("QUEUED"),
                QueueOutcome::Rejected(text) => replies.write_error(&text),
                QueueOutcome::RejectedAuth(text) => {
                    identity.note_failed_auth();
                    replies.write_error(&text);
                }
                outcome => end = Some(outcome),
            }
        }
        pending.next_index = index;
        match end {
            Some(QueueOutcome::Executed) => self.execute_transaction(*transaction).await,
            Some(QueueOutcome::Aborted(text)) => replies.write_error(&text),
            Some(QueueOutcome::Discarded) => replies.write_simple("OK"),
            Some(QueueOutcome::Left) => pending.next_index = index - 1,
            _ => self.session.transaction = Some(transaction),
        }
        self.note_command();
        tokio::task::yield_now().await;
        self.write_available().await?;
        Ok(StepResult::Progress)
    }

    /// Executes all commands of a transaction, and answers with the array of their answers; or
    /// rejects it, and executes none.
    async fn execute_transaction(&mut self, transaction: Transaction) {
        let held = self.held_bytes();
        let (session, replies) = (&mut self.session, &mut self.socket.replies);
        let queue = match transaction.into_queue() {
            Ok(queue) => queue,
            Err(text) => return replies.write_error(text),
        };
        if !self.reservation.try_resize(held + queue.estimated_bytes()) {
            return replies.write_error(TOO_MANY_BYTES);
        }
        let command_count = queue.command_count();
        let deadline = Instant::now() + EXECUTION_TIMEOUT;
        replies.begin_array(command_count);
        let mut next_index = 0;
        while next_index < command_count {
            let (batch, end_index) = CommandBatch::gather(
                next_index..command_count,
                |i| queue.command_words(i),
                session.identity.caller(),
            );
            // Each batch may wait for calls of which each has a time of its own.
            match Instant::now() < deadline {
                true => {
                    let data = &queue.data;
                    batch.execute(&self.target, data, session, replies).await;
                }
                false => {
                    batch.reject_items(TOO_LATE, self.target.sequence, session, replies);
                }
            }
            next_index = end_index;
            tokio::task::yield_now().await;
        }
    }
}
