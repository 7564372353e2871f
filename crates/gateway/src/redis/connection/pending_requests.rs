//! The requests of a connection that have arrived completely and wait for their execution.

use bytes::Bytes;
use seqsvr_access::Caller;

use crate::redis::command_batch::CommandBatch;
use crate::redis::parser::RequestParser;

/// Complete requests, some of which are not answered.
#[derive(Default)]
pub(super) struct PendingRequests {
    pub(super) parser: RequestParser,
    /// Bytes of the requests.
    pub(super) data: Bytes,
    /// Index of the first request that is not answered.
    pub(super) next_index: usize,
}

impl PendingRequests {
    pub(super) fn has_next(&self) -> bool {
        self.next_index < self.parser.request_count()
    }

    /// Returns whether `bytes` are one request, and no part of another.
    pub(super) fn is_single_request(&self, bytes: &[u8]) -> bool {
        self.parser.request_count() == 1 && self.parser.complete_bytes() == bytes.len()
    }

    /// Returns the next commands, of this caller, that are executed together, and the index of the
    /// first request after them.
    pub(super) fn next_batch(&self, caller: Option<&Caller>) -> (CommandBatch<'_>, usize) {
        CommandBatch::gather(
            self.next_index..self.parser.request_count(),
            |index| self.parser.request_words(index, &self.data),
            caller,
        )
    }

    /// Discards the answered requests.
    pub(super) fn clear(&mut self) {
        self.parser.discard_complete();
        self.data = Bytes::new();
        self.next_index = 0;
    }
}
