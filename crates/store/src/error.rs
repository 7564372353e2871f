//! Reasons why a store does not start. Plain data.

use std::io;
use std::net::SocketAddr;

/// Reason why a store does not start; the text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process listens there.
    #[error(
        "address {0} is in use: stop the process that listens there, or give this store another address with --listen"
    )]
    AddressInUse(SocketAddr),
    /// The store cannot listen on the address.
    #[error("cannot listen on {address}: {source}; give an address of this machine with --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Other processes could not find the store.
    #[error(
        "listening on {0} needs --advertise HOST:PORT: the address under which the other stores and the AllocSvrs reach this one"
    )]
    NoAdvertiseAddress(String),
    /// Error of the data directory or of Raft.
    #[error(transparent)]
    Raft(#[from] seqsvr_raft::Error),
    /// The reflection service rejected the descriptors built into this binary.
    #[error("this build is broken: {0}")]
    Descriptors(String),
}

impl Error {
    /// Returns whether the store does not start because of a setting, which only an operator
    /// corrects. What another process holds, such as a port, may be free at the next start.
    pub fn is_wrong_setting(&self) -> bool {
        use seqsvr_raft::Error::{Copied, WrongNode};
        matches!(
            self,
            Error::NoAdvertiseAddress(_) | Error::Raft(WrongNode { .. } | Copied { .. })
        )
    }
}
