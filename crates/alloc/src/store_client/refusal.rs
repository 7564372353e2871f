//! Converts a store's refusal of a command to the error of a call.

use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::refused::Kind;
use seqsvr_proto::v1::{self, Reason};

use crate::session::renewal_signal::RenewalSignal;

/// Returns the error that a refusal by the state means to a caller.
pub(crate) fn fault_from_refusal(refused: &v1::Refused, renewals: &RenewalSignal) -> Fault {
    match refused.kind() {
        Kind::NotOwner => {
            renewals.request_renewal();
            Fault::new(Reason::NotOwner, refused.message.clone())
        }
        // Another generation came first: the caller looks the section up again.
        Kind::StaleGeneration => Fault::new(Reason::NotOwner, refused.message.clone()),
        Kind::Exhausted => Fault::new(Reason::SequenceExhausted, refused.message.clone()),
        Kind::AboveBound => Fault::new(Reason::AboveBound, refused.message.clone()),
        Kind::NoSuchNamespace => Fault::new(Reason::NoSuchNamespace, refused.message.clone()),
        Kind::Invalid | Kind::Unspecified => Fault::new(Reason::Refused, refused.message.clone()),
    }
}

/// Returns the error for a reply of another kind than the command.
pub(crate) fn unexpected_reply() -> Fault {
    Fault::new(
        Reason::Unspecified,
        "internal error: the reply of the store does not match the command",
    )
}
