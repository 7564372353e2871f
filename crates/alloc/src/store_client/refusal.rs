//! Converts the rejection of a command by the state to the error of a call.

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::rejected::Kind;
use seqsvr_proto::v1::{self, Reason};

use crate::session::renewal_signal::RenewalSignal;

/// Returns the error that a rejection by the state means to a caller.
pub(crate) fn fault_from_refusal(refused: &v1::Rejected, renewals: &RenewalSignal) -> RpcError {
    match refused.kind() {
        Kind::NotOwner => {
            renewals.request_renewal();
            RpcError::new(Reason::NotOwner, refused.message.clone())
        }
        // Another generation came first: the caller looks the section up again.
        Kind::StaleGeneration => RpcError::new(Reason::NotOwner, refused.message.clone()),
        Kind::Exhausted => RpcError::new(Reason::SequenceExhausted, refused.message.clone()),
        Kind::JumpTooLarge => RpcError::new(Reason::JumpTooLarge, refused.message.clone()),
        Kind::NamespaceNotFound => {
            RpcError::new(Reason::NamespaceNotFound, refused.message.clone())
        }
        Kind::Invalid | Kind::Unspecified => {
            RpcError::new(Reason::Rejected, refused.message.clone())
        }
    }
}

/// Returns the error for a reply of another kind than the command.
pub(crate) fn unexpected_reply() -> RpcError {
    RpcError::new(
        Reason::Unspecified,
        "internal error: the reply of the store does not match the command",
    )
}
