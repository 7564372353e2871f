//! Actions of the model of grants: one step of the stores, of a holder, or of the network.

use super::message::{GrantCommand, HolderReply, HolderRequest};

/// One step of the stores, of a holder, or of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GrantAction {
    /// The stores commit a command of a leader or an operator.
    Commit(GrantCommand),
    /// A request arrives and is committed.
    DeliverRequest(HolderRequest),
    /// A reply arrives.
    DeliverReply(HolderReply),
    /// A holder sends a request.
    Send(HolderRequest),
    /// A holder makes an id.
    UseTick {
        holder: usize,
        worker: usize,
        tick: u8,
        /// Whether the ledger records it.
        is_recorded: bool,
    },
}
