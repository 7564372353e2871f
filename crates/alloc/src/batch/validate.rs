//! Validates the parts of a request.

use std::num::NonZeroU32;

use seqsvr_access::{Caller, GrantTarget, NamespaceRight};
use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::key::KeyRef;
use seqsvr_core::namespace::NAME_MAX;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{RaiseToRequest, Reason};
use tonic::Status;

use crate::batch::item::ItemOperation;

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

/// Returns what a RaiseTo does; checks that it has one value within the bounds.
pub(crate) fn parse_raise(request: &RaiseToRequest) -> Result<ItemOperation, Status> {
    let (value, if_none) = match (request.value, request.value_if_none) {
        (value, 0) => (value, false),
        (0, value) => (value, true),
        (value, value_if_none) => {
            return Err(invalid_status(format!(
                "RaiseTo takes value or value_if_none, not both ({value} and {value_if_none})"
            )));
        }
    };
    if value == 0 || value > seqsvr_core::SEQ_MAX {
        return Err(invalid_status(format!(
            "RaiseTo takes a number from 1 to 2^63-1, not {value}"
        )));
    }
    Ok(ItemOperation::RaiseTo {
        value,
        force: request.force,
        if_none,
    })
}

/// Checks that a caller has a right on a namespace or family, before anything looks for it.
///
/// Invariant: the answer to a caller without the right is the same whether there is such a
/// namespace or not. Schedule that breaks it: the holder of a token requests one name after
/// another, and reads the names of all customers from the answers.
///
/// # Errors
/// It has not.
pub(crate) fn check_right(
    caller: &Caller,
    right: NamespaceRight,
    target: GrantTarget<'_>,
) -> Result<(), RpcError> {
    let checked = caller.check_right_on(right, target);
    checked.map_err(|why| RpcError::new(Reason::PermissionDenied, why.to_string()))
}

/// Checks that the caller of a RaiseTo may force it.
///
/// An AllocSvr that forwards is no operator either. Schedule that breaks it: the holder of one
/// AllocSvr's key forces the sequences of all others to their end, as raises that it forwards.
///
/// # Errors
/// It forces the raise, and is no operator.
pub(crate) fn check_force(request: &RaiseToRequest, caller: &Caller) -> Result<(), RpcError> {
    match caller.may_force() || !request.force {
        true => Ok(()),
        false => Err(RpcError::new(
            Reason::PermissionDenied,
            "only the role admin, or a principal with the right admin, may raise with force: use its certificate or token, or raise without force",
        )),
    }
}

pub(crate) fn invalid_status(text: String) -> Status {
    RpcError::new(Reason::Invalid, text).into()
}
