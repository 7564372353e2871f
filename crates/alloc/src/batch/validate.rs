//! Validates the parts of a request.

use std::num::NonZeroU32;

use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::NAME_MAX;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tonic::Status;

/// Validates a count by the contract's bounds. A namespace's own bound is checked with its window.
pub(crate) fn validate_count(count: u32) -> Result<NonZeroU32, RpcError> {
    let max = COUNT_MAX;
    match NonZeroU32::new(count).filter(|c| c.get() <= max) {
        Some(count) => Ok(count),
        None => {
            let text = format!("count must be 1 to {max}, not {count}");
            Err(RpcError::new(
                if count == 0 {
                    Reason::Invalid
                } else {
                    Reason::LimitExceeded
                },
                text,
            ))
        }
    }
}

/// Rejects a name that is too long for a namespace. An error would repeat it for every item.
pub(crate) fn validate_namespace_name(name: &str) -> Result<(), RpcError> {
    if name.len() <= NAME_MAX {
        return Ok(());
    }
    let text = format!(
        "there is no namespace with a name of {} bytes: names have at most {NAME_MAX}",
        name.len()
    );
    Err(RpcError::new(Reason::NamespaceNotFound, text))
}

/// Returns the key of a single-key request.
pub(crate) fn require_key(key: Option<KeyRef<'_>>) -> Result<KeyRef<'_>, RpcError> {
    let text = "the request has no key; set a uid or a key";
    key.ok_or_else(|| RpcError::new(Reason::Invalid, text))
}

/// Checks that a column is empty or has an entry for each item.
pub(crate) fn validate_column(name: &str, entries: usize, items: usize) -> Result<(), RpcError> {
    if entries == 0 || entries == items {
        return Ok(());
    }
    let text = format!(
        "{name} has {entries} entries for {items} items; leave it empty or give one an item"
    );
    Err(RpcError::new(Reason::Invalid, text))
}

pub(crate) fn invalid_status(text: String) -> Status {
    RpcError::new(Reason::Invalid, text).into()
}
