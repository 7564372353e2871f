//! Errors on the wire: a canonical gRPC code, a text that says what to do, and an
//! [`ErrorDetail`] in the standard `grpc-status-details-bin`.

use std::fmt;

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use crate::v1::{ErrorDetail, Reason, RoutingTable};

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

const TYPE_URL: &str = "type.googleapis.com/seqsvr.v1.ErrorDetail";

/// Code that goes with a reason.
pub fn code_of(reason: Reason) -> Code {
    match reason {
        Reason::Unspecified => Code::Internal,
        Reason::NotOwner | Reason::NoLease | Reason::NoWindow | Reason::Unreachable => {
            Code::Unavailable
        }
        Reason::StaleEpoch | Reason::NotLeader | Reason::Refused | Reason::NotInitialised => {
            Code::FailedPrecondition
        }
        Reason::NoSuchSession => Code::FailedPrecondition,
        Reason::NoSuchNamespace => Code::NotFound,
        Reason::SequenceExhausted | Reason::AboveBound => Code::OutOfRange,
        Reason::TooMany => Code::ResourceExhausted,
        Reason::Invalid | Reason::FloorUnknown => Code::InvalidArgument,
        Reason::NameTaken => Code::AlreadyExists,
    }
}

/// An error with its detail, before it becomes a [`Status`].
#[derive(Clone, Debug)]
pub struct Fault {
    /// Canonical code.
    pub code: Code,
    /// What happened and what to do.
    pub message: String,
    /// Machine-readable part.
    pub detail: Box<ErrorDetail>,
}

impl Fault {
    /// A fault with the reason's usual code.
    pub fn new(reason: Reason, message: impl Into<String>) -> Fault {
        Fault {
            code: code_of(reason),
            message: message.into(),
            detail: Box::new(ErrorDetail {
                reason: reason.into(),
                ..ErrorDetail::default()
            }),
        }
    }

    /// Overrides the code (a limit that is the caller's mistake is INVALID_ARGUMENT, say).
    pub fn with_code(mut self, code: Code) -> Fault {
        self.code = code;
        self
    }

    /// Attaches routing-table changes.
    pub fn with_routes(mut self, routes: Option<RoutingTable>) -> Fault {
        self.detail.routes = routes;
        self
    }

    /// Attaches where the leader is.
    pub fn with_leader(mut self, leader: Option<String>) -> Fault {
        self.detail.leader = leader.unwrap_or_default();
        self
    }

    /// Attaches when a retry makes sense.
    pub fn with_retry_after_ms(mut self, ms: u32) -> Fault {
        self.detail.retry_after_ms = ms;
        self
    }

    /// The reason.
    pub fn reason(&self) -> Reason {
        self.detail.reason()
    }

    /// Reads a status; one without our detail has [`Reason::Unspecified`].
    pub fn from_status(status: &Status) -> Fault {
        let detail = RpcStatus::decode(status.details()).ok().and_then(|s| {
            let any = s.details.into_iter().find(|d| d.type_url == TYPE_URL)?;
            ErrorDetail::decode(any.value.as_slice()).ok()
        });
        Fault {
            code: status.code(),
            message: status.message().to_owned(),
            detail: Box::new(detail.unwrap_or_default()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for Status {
    fn from(fault: Fault) -> Status {
        let any = prost_types::Any {
            type_url: TYPE_URL.to_owned(),
            value: fault.detail.encode_to_vec(),
        };
        let rpc = RpcStatus {
            code: fault.code as i32,
            message: fault.message.clone(),
            details: vec![any],
        };
        Status::with_details(fault.code, fault.message, Bytes::from(rpc.encode_to_vec()))
    }
}

impl From<crate::convert::Malformed> for Fault {
    fn from(e: crate::convert::Malformed) -> Fault {
        Fault::new(Reason::Invalid, e.to_string())
    }
}

impl From<seqsvr_core::route::PlaceError> for Fault {
    fn from(e: seqsvr_core::route::PlaceError) -> Fault {
        Fault::new(Reason::Invalid, e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_survives_the_wire() {
        let fault = Fault::new(Reason::NotLeader, "ask the leader")
            .with_leader(Some("127.0.0.1:7801".into()));
        let back = Fault::from_status(&Status::from(fault));
        assert_eq!(back.code, Code::FailedPrecondition);
        assert_eq!(back.reason(), Reason::NotLeader);
        assert_eq!(back.detail.leader, "127.0.0.1:7801");
        assert_eq!(back.message, "ask the leader");
    }

    #[test]
    fn a_foreign_status_has_no_reason() {
        let fault = Fault::from_status(&Status::unavailable("connection refused"));
        assert_eq!(
            (fault.code, fault.reason()),
            (Code::Unavailable, Reason::Unspecified)
        );
    }
}
