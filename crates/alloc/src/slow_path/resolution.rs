//! Resolutions of items that waited: answered, or to be retried.

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

use crate::batch::item::ItemAnswer;

/// Index of an item, with its answer, or None if it must be retried.
pub(crate) type Resolution = (u32, Option<Result<ItemAnswer, RpcError>>);

/// Returns whether a retry may help.
pub(crate) fn is_transient(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NotOwner
            | Reason::NoLease
            | Reason::Unreachable
            | Reason::NotLeader
            | Reason::SessionNotFound
            // A process of another cluster has the owner's address. The next table shows it.
            | Reason::ClusterMismatch
    )
}

pub(crate) fn retry_all(members: Vec<u32>) -> Vec<Resolution> {
    members.into_iter().map(|i| (i, None)).collect()
}

pub(crate) fn resolve_all(
    members: Vec<u32>,
    answer: &Result<ItemAnswer, RpcError>,
) -> Vec<Resolution> {
    members
        .into_iter()
        .map(|i| (i, Some(answer.clone())))
        .collect()
}
