//! A validated request for many keys: NextMany, CurrentMany, a frame of a Pipe, or a Current as a
//! batch of one item.

use std::num::NonZeroU32;

use bytes::Bytes;
use seqsvr_access::{Caller, GrantTarget, NamespaceRight};
use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::key::KeyRef;
use seqsvr_net::ConnectionQuota;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::convert::namespace_name;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::trace_context::TraceContext;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentRequest, NextManyRequest, Reason, current_request,
};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::batch::item::{ItemOperation, RequestItem};
use crate::batch::request_context::{OPENS_PER_REQUEST_MAX, RequestContext, is_forwarded};
use crate::batch::validate::{
    check_right, validate_column, validate_count, validate_namespace_name,
};

/// Estimated memory of a waiting item: itself, its answer, and the reason why it waits.
const WAITING_ITEM_BYTES: usize = 512;

/// Operation of all items of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchOperation {
    Next,
    Current,
}

/// Items of a request in columns. The i-th entries of all non-empty columns belong together.
pub(crate) struct BatchRequest {
    pub(crate) operation: BatchOperation,
    /// As the caller wrote it; may be empty.
    pub(crate) namespace: String,
    pub(crate) strict: bool,
    pub(crate) table_version: u64,
    pub(crate) forwarded: bool,
    /// Cluster that the caller names.
    pub(crate) cluster: ClusterTag,
    counts: Vec<u32>,
    uids: Vec<u64>,
    keys: Vec<Bytes>,
    floors: Vec<u64>,
    epochs: Vec<u64>,
}

/// Arguments of an item of Next, apart from its key.
#[derive(Clone, Copy)]
pub(crate) struct TakeArgs {
    pub(crate) count: NonZeroU32,
    /// As [`BatchRequest::floor_at`].
    pub(crate) floor: u64,
    /// As [`BatchRequest::epoch_at`].
    pub(crate) epoch: u64,
}

impl From<NextManyRequest> for BatchRequest {
    fn from(request: NextManyRequest) -> BatchRequest {
        BatchRequest {
            operation: BatchOperation::Next,
            namespace: request.namespace,
            strict: request.strict,
            table_version: request.table_version,
            forwarded: request.forwarded,
            cluster: ClusterTag(request.cluster_tag),
            counts: request.counts,
            uids: request.uids,
            keys: request.keys,
            floors: request.floors,
            epochs: request.epochs,
        }
    }
}

impl From<CurrentManyRequest> for BatchRequest {
    fn from(request: CurrentManyRequest) -> BatchRequest {
        BatchRequest {
            operation: BatchOperation::Current,
            namespace: request.namespace,
            strict: request.strict,
            table_version: request.table_version,
            forwarded: request.forwarded,
            cluster: ClusterTag(request.cluster_tag),
            counts: Vec::new(),
            uids: request.uids,
            keys: request.keys,
            floors: Vec::new(),
            epochs: request.epochs,
        }
    }
}

impl From<CurrentRequest> for BatchRequest {
    fn from(request: CurrentRequest) -> BatchRequest {
        let (uids, keys) = match request.key_kind {
            Some(current_request::KeyKind::Uid(uid)) => (vec![uid], Vec::new()),
            Some(current_request::KeyKind::Key(key)) => (Vec::new(), vec![key]),
            None => Default::default(),
        };
        BatchRequest {
            operation: BatchOperation::Current,
            namespace: request.namespace,
            strict: request.strict,
            table_version: request.table_version,
            forwarded: request.forwarded,
            cluster: ClusterTag(request.cluster_tag),
            counts: Vec::new(),
            uids,
            keys,
            floors: Vec::new(),
            epochs: request.epoch.into_iter().collect(),
        }
    }
}

impl BatchRequest {
    /// Keeps these items only, without the bytes of the others or any other part of the message
    /// they came in. Only what [`BatchRequest::retained_bytes`] counts is kept.
    pub(crate) fn retain_items(self, items: &[u32]) -> BatchRequest {
        fn pick<T: Clone>(column: Vec<T>, items: &[u32], all: usize) -> Vec<T> {
            match column.len() == all && items.len() < all {
                true => items.iter().map(|i| column[*i as usize].clone()).collect(),
                false => column,
            }
        }
        let all = self.len();
        BatchRequest {
            keys: compact_keys(&pick(self.keys, items, all)),
            uids: pick(self.uids, items, all),
            counts: pick(self.counts, items, all),
            floors: pick(self.floors, items, all),
            epochs: pick(self.epochs, items, all),
            ..self
        }
    }

    /// Returns about how many bytes its items and their answers take while they wait.
    pub(crate) fn retained_bytes(&self) -> usize {
        let keys = self.keys.iter().map(Bytes::len).sum::<usize>();
        self.len() * WAITING_ITEM_BYTES + keys
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        self.uids.len().max(self.keys.len())
    }

    /// Rejects a batch whose caller has not the right to it on its namespace.
    pub(crate) fn check_right(&self, caller: &Caller) -> Result<(), RpcError> {
        let right = match self.operation {
            BatchOperation::Next => NamespaceRight::Next,
            BatchOperation::Current => NamespaceRight::Current,
        };
        check_right(caller, right, GrantTarget::Namespace(self.namespace_name()))
    }

    /// Rejects a batch that is invalid as a whole. Single items are validated when they are served.
    pub(crate) fn validate(&self, batch_items_max: usize) -> Result<(), RpcError> {
        validate_namespace_name(&self.namespace)?;
        let wrong = |text: &str| Err(RpcError::new(Reason::Invalid, text));
        match (self.uids.is_empty(), self.keys.is_empty()) {
            (true, true) => return wrong("the request has no items; give uids or keys"),
            (false, false) => {
                return wrong("the request has both uids and keys; send two requests");
            }
            _ => {}
        }
        let n = self.len();
        if n > batch_items_max {
            let text =
                format!("one request takes at most {batch_items_max} items, not {n}; split it");
            return Err(RpcError::new(Reason::LimitExceeded, text));
        }
        validate_column("counts", self.counts.len(), n)?;
        validate_column("floors", self.floors.len(), n)?;
        if self.epochs.len() != 1 {
            validate_column("epochs", self.epochs.len(), n)?;
        }
        // An invalid count fails its item only, and takes no numbers.
        let good = self.counts.iter().filter(|count| **count <= COUNT_MAX);
        let total: u64 = good.map(|count| u64::from(*count)).sum();
        if total > NUMBERS_MAX {
            let text =
                format!("one NextMany takes at most {NUMBERS_MAX} numbers, not {total}; split it");
            return Err(RpcError::new(Reason::LimitExceeded, text));
        }
        Ok(())
    }

    /// Returns the context that its items share.
    pub(crate) fn to_context(
        &self,
        caller: &Caller,
        deadline: Instant,
        share: Option<ConnectionQuota>,
        trace: Option<TraceContext>,
    ) -> RequestContext {
        RequestContext {
            namespace: self.namespace.clone(),
            deadline,
            forwarded: is_forwarded(self.forwarded, caller),
            cluster: self.cluster,
            table_version: self.table_version,
            strict: self.strict,
            share,
            trace,
            opens: Semaphore::new(OPENS_PER_REQUEST_MAX),
        }
    }

    /// Returns whether items have counts. Without counts each item takes one number.
    #[inline]
    pub(crate) fn has_counts(&self) -> bool {
        !self.counts.is_empty()
    }

    /// Returns the name of the requested namespace.
    pub(crate) fn namespace_name(&self) -> &str {
        let kind = match self.keys.is_empty() {
            true => KeyRef::Uid(0),
            false => KeyRef::Key(&[]),
        };
        namespace_name(&self.namespace, kind)
    }

    /// Returns all uids; empty if the batch has keys.
    #[inline]
    pub(crate) fn uids(&self) -> &[u64] {
        &self.uids
    }

    /// Returns the i-th key, which must exist.
    #[inline]
    pub(crate) fn key_at(&self, i: usize) -> KeyRef<'_> {
        match self.uids.get(i) {
            Some(uid) => KeyRef::Uid(*uid),
            None => KeyRef::Key(&self.keys[i]),
        }
    }

    /// Returns how many numbers the i-th item takes; None: a count that no namespace allows.
    #[inline]
    pub(crate) fn count_at(&self, i: usize) -> Option<NonZeroU32> {
        match self.counts.get(i) {
            Some(count) => NonZeroU32::new(*count).filter(|count| count.get() <= COUNT_MAX),
            None => Some(NonZeroU32::MIN),
        }
    }

    /// Returns the last number that the caller has seen; 0: none.
    #[inline]
    pub(crate) fn floor_at(&self, i: usize) -> u64 {
        self.floors.get(i).copied().unwrap_or(0)
    }

    /// Returns the highest epoch that the caller has seen; 0: none.
    #[inline]
    pub(crate) fn epoch_at(&self, i: usize) -> u64 {
        match self.epochs.as_slice() {
            [one] => *one,
            all => all.get(i).copied().unwrap_or(0),
        }
    }

    /// Returns the arguments of the i-th item of Next; None: a count that no namespace allows.
    #[inline]
    pub(crate) fn take_args_at(&self, i: usize) -> Option<TakeArgs> {
        Some(TakeArgs {
            count: self.count_at(i)?,
            floor: self.floor_at(i),
            epoch: self.epoch_at(i),
        })
    }

    /// Returns the arguments of Next that all items share; None if they differ.
    pub(crate) fn common_take_args(&self) -> Option<TakeArgs> {
        let same = self.counts.is_empty() && self.floors.is_empty() && self.epochs.len() <= 1;
        same.then(|| self.take_args_at(0)).flatten()
    }

    /// Returns the i-th item on its own.
    pub(crate) fn to_item(&self, i: usize) -> Result<RequestItem, RpcError> {
        let operation = match self.operation {
            BatchOperation::Current => ItemOperation::Current,
            BatchOperation::Next => ItemOperation::Next {
                count: validate_count(self.counts.get(i).copied().unwrap_or(1))?,
                floor: self.floor_at(i),
            },
        };
        Ok(RequestItem {
            key: match self.uids.get(i) {
                Some(uid) => KeyBuf::Uid(*uid),
                None => KeyBuf::Key(self.keys[i].clone()),
            },
            operation,
            epoch: self.epoch_at(i),
        })
    }
}

/// Copies keys, which are parts of the buffer of a whole message, into one buffer of their own.
fn compact_keys(keys: &[Bytes]) -> Vec<Bytes> {
    let bytes = Bytes::from(keys.concat());
    let mut end = 0;
    let parts = keys.iter().map(|key| {
        let begin = end;
        end += key.len();
        bytes.slice(begin..end)
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retained_items_keep_no_bytes_of_their_message() {
        let message = Bytes::from(vec![b'k'; 1_000_000]);
        let keys: Vec<Bytes> = (0..4).map(|i| message.slice(i * 10..i * 10 + 3)).collect();
        for items in [&[0, 1, 2, 3][..], &[0, 1, 3], &[2]] {
            let batch = BatchRequest::from(NextManyRequest {
                keys: keys.clone(),
                counts: vec![1, 2, 3, 4],
                ..NextManyRequest::default()
            });
            let retained = batch.retain_items(items);
            assert_eq!(retained.keys, vec!["kkk"; items.len()]);
            let counts: Vec<u32> = items.iter().map(|i| i + 1).collect();
            assert_eq!(retained.counts, counts);
            let within = message.as_ptr_range();
            assert!(
                !retained
                    .keys
                    .iter()
                    .any(|key| within.contains(&key.as_ptr()))
            );
        }
    }
}
