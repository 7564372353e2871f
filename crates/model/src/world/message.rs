//! Messages between AllocSvrs and the stores. Each names the cluster of its sender.

use crate::world::store_command::{StoreCommand, StoreReply};

/// A request on its way to the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RequestInFlight {
    /// The command that it requests.
    pub(crate) command: StoreCommand,
    /// The process that sent it.
    pub(crate) process: u8,
    /// The cluster that it names; 0 is none.
    pub(crate) cluster: u8,
}

/// A reply of a store on its way to an AllocSvr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ReplyInFlight {
    /// Its content.
    pub(crate) reply: StoreReply,
    /// The process that receives it.
    pub(crate) process: u8,
    /// The cluster of the store.
    pub(crate) cluster: u8,
}
