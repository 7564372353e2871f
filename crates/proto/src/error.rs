//! Errors on the wire: a canonical gRPC code, a text that says what to do, and details.
//!
//! The details are in the standard `grpc-status-details-bin`: first an [`ErrorDetail`], then what
//! any language's library can read, google.rpc.ErrorInfo, and google.rpc.RetryInfo if a later retry
//! makes sense.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use crate::cluster_tag::{ClusterTag, InvalidClusterTag};
use crate::convert::DecodeError;
use crate::v1::{ErrorDetail, ItemError, Reason, RoutingTable};

/// Returns the innermost cause of a status that this process made itself because no answer came,
/// such as a broken connection. None: a server sent the status.
pub fn local_cause(status: &Status) -> Option<String> {
    // tonic gives a source to a status it made itself; a status from a server has none.
    let mut cause = status.source()?;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    Some(cause.to_string())
}

/// Returns the error of a caller and a server that belong to different clusters.
pub fn cluster_mismatch_error(server: ClusterTag, caller: ClusterTag) -> RpcError {
    let text = format!(
        "cluster mismatch: the server belongs to cluster ..{server}, the caller to ..{caller}; correct the address, or create a new client if the cluster was created again or restored from a backup"
    );
    RpcError::new(Reason::ClusterMismatch, text)
}

/// google.rpc.Status, as every gRPC library reads it from `grpc-status-details-bin`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<prost_types::Any>,
}

/// google.rpc.ErrorInfo.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    /// Name of the [`Reason`] without its prefix, such as `NAMESPACE_NOT_FOUND`.
    #[prost(string, tag = "1")]
    reason: String,
    /// [`ERROR_DOMAIN`].
    #[prost(string, tag = "2")]
    domain: String,
    /// `leader`, if known.
    #[prost(btree_map = "string, string", tag = "3")]
    metadata: BTreeMap<String, String>,
}

/// google.rpc.RetryInfo.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<prost_types::Duration>,
}

const ERROR_DETAIL_URL: &str = "type.googleapis.com/seqsvr.v1.ErrorDetail";
const ERROR_INFO_URL: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const RETRY_INFO_URL: &str = "type.googleapis.com/google.rpc.RetryInfo";
/// Domain of the reasons, which separates them from those of other services that a caller may meet.
const ERROR_DOMAIN: &str = "seqsvr";

/// Returns the code that belongs to a reason.
pub fn code_for_reason(reason: Reason) -> Code {
    match reason {
        Reason::Unspecified => Code::Internal,
        Reason::NotOwner | Reason::NoLease | Reason::WindowExhausted | Reason::Unreachable => {
            Code::Unavailable
        }
        Reason::StaleEpoch | Reason::NotLeader | Reason::Rejected | Reason::NotInitialized => {
            Code::FailedPrecondition
        }
        Reason::SessionNotFound | Reason::ClusterMismatch => Code::FailedPrecondition,
        Reason::NamespaceNotFound | Reason::FamilyNotFound => Code::NotFound,
        Reason::SequenceExhausted | Reason::JumpTooLarge | Reason::TimeExhausted => {
            Code::OutOfRange
        }
        Reason::Overloaded | Reason::NoWorker => Code::ResourceExhausted,
        Reason::Invalid | Reason::LimitExceeded | Reason::FloorAhead => Code::InvalidArgument,
        Reason::StaleWorker | Reason::LevelTooLow => Code::FailedPrecondition,
        Reason::TooFarAhead | Reason::ClockSuspect => Code::Unavailable,
        Reason::NotAnId => Code::InvalidArgument,
        Reason::NameTaken | Reason::AddressTaken => Code::AlreadyExists,
        Reason::Unauthenticated => Code::Unauthenticated,
        Reason::PermissionDenied => Code::PermissionDenied,
    }
}

/// An error with its detail, before it becomes a [`Status`].
#[derive(Clone, Debug)]
pub struct RpcError {
    /// Canonical code.
    pub code: Code,
    /// What happened and what to do.
    pub message: String,
    /// Machine-readable part.
    pub detail: Box<ErrorDetail>,
}

impl RpcError {
    /// Makes an error with the reason's usual code.
    pub fn new(reason: Reason, message: impl Into<String>) -> RpcError {
        RpcError {
            code: code_for_reason(reason),
            message: message.into(),
            detail: Box::new(ErrorDetail {
                reason: reason.into(),
                ..ErrorDetail::default()
            }),
        }
    }

    /// Overrides the code (for example, a limit that is the caller's mistake is INVALID_ARGUMENT).
    pub fn with_code(mut self, code: Code) -> RpcError {
        self.code = code;
        self
    }

    /// Attaches routing-table changes.
    pub fn with_routes(mut self, routes: Option<RoutingTable>) -> RpcError {
        self.detail.routes = routes;
        self
    }

    /// Attaches the address of the leader.
    pub fn with_leader(mut self, leader: Option<String>) -> RpcError {
        self.detail.leader = leader.unwrap_or_default();
        self
    }

    /// Attaches the delay after which a retry makes sense.
    pub fn with_retry_after_ms(mut self, ms: u32) -> RpcError {
        self.detail.retry_after_ms = ms;
        self
    }

    /// Attaches the epoch of the slot that the request named (0: none), and the one that a store
    /// has confirmed since the request arrived.
    pub fn with_epochs(mut self, requested: u64, confirmed: u64) -> RpcError {
        self.detail.requested_epoch = requested;
        self.detail.confirmed_epoch = confirmed;
        self
    }

    /// Names the cluster that answers.
    pub fn with_cluster_tag(mut self, tag: ClusterTag) -> RpcError {
        self.detail.cluster_tag = tag.0;
        self
    }

    /// Returns the reason.
    pub fn reason(&self) -> Reason {
        self.detail.reason()
    }

    /// Reads a status; one without this detail has [`Reason::Unspecified`].
    pub fn from_status(status: &Status) -> RpcError {
        let detail = RpcStatus::decode(status.details()).ok().and_then(|s| {
            let any = s
                .details
                .into_iter()
                .find(|d| d.type_url == ERROR_DETAIL_URL)?;
            ErrorDetail::decode(any.value.as_slice()).ok()
        });
        RpcError {
            code: status.code(),
            message: status.message().to_owned(),
            detail: Box::new(detail.unwrap_or_default()),
        }
    }

    /// Returns it as the error of one item of a batch.
    pub fn to_item_error(&self, index: usize) -> ItemError {
        ItemError {
            index: index as u32,
            code: self.code as i32,
            reason: self.reason().into(),
            message: self.message.clone(),
            retry_after_ms: self.detail.retry_after_ms,
            confirmed_epoch: self.detail.confirmed_epoch,
            requested_epoch: self.detail.requested_epoch,
        }
    }

    /// Reads the error of one item of a batch.
    pub fn from_item_error(error: ItemError) -> RpcError {
        RpcError::new(error.reason(), error.message)
            .with_code(Code::from(error.code))
            .with_retry_after_ms(error.retry_after_ms)
            .with_epochs(error.requested_epoch, error.confirmed_epoch)
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for RpcError {}

impl From<RpcError> for Status {
    fn from(fault: RpcError) -> Status {
        let mut details = Vec::with_capacity(3);
        details.push(to_any(ERROR_DETAIL_URL, &*fault.detail));
        if fault.reason() != Reason::Unspecified {
            details.push(to_any(ERROR_INFO_URL, &error_info(&fault.detail)));
        }
        if fault.detail.retry_after_ms > 0 {
            let delay = Duration::from_millis(fault.detail.retry_after_ms.into());
            let retry = RetryInfo {
                retry_delay: prost_types::Duration::try_from(delay).ok(),
            };
            details.push(to_any(RETRY_INFO_URL, &retry));
        }
        let rpc = RpcStatus {
            code: fault.code as i32,
            message: fault.message.clone(),
            details,
        };
        Status::with_details(fault.code, fault.message, Bytes::from(rpc.encode_to_vec()))
    }
}

fn to_any(type_url: &str, message: &impl Message) -> prost_types::Any {
    prost_types::Any {
        type_url: type_url.to_owned(),
        value: message.encode_to_vec(),
    }
}

fn error_info(detail: &ErrorDetail) -> ErrorInfo {
    let name = detail.reason().as_str_name();
    let leader = Some(&detail.leader).filter(|leader| !leader.is_empty());
    ErrorInfo {
        reason: name.strip_prefix("REASON_").unwrap_or(name).to_owned(),
        domain: ERROR_DOMAIN.to_owned(),
        metadata: leader
            .map(|leader| ("leader".to_owned(), leader.clone()))
            .into_iter()
            .collect(),
    }
}

impl From<DecodeError> for RpcError {
    fn from(e: DecodeError) -> RpcError {
        RpcError::new(Reason::Invalid, e.to_string())
    }
}

impl From<InvalidClusterTag> for Status {
    fn from(e: InvalidClusterTag) -> Status {
        RpcError::new(Reason::Invalid, e.to_string()).into()
    }
}

impl From<seqsvr_core::routing_table::LocateError> for RpcError {
    fn from(e: seqsvr_core::routing_table::LocateError) -> RpcError {
        RpcError::new(Reason::Invalid, e.to_string())
    }
}

#[cfg(test)]
mod tests;
