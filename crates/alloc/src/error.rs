//! Errors that prevent an AllocSvr from starting, or end it.

use std::net::SocketAddr;

use seqsvr_proto::cluster_tag::ClusterTag;

/// Error that prevents an AllocSvr from starting, or ends it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The options cannot be used.
    #[error("{0}")]
    Options(String),
    /// Callers and other AllocSvrs could not find it.
    #[error(
        "listening on {0} needs --advertise HOST:PORT: the address under which clients and the other AllocSvrs reach this one"
    )]
    NoAdvertiseAddress(String),
    /// The listen address cannot be used.
    #[error(
        "cannot listen on {address}: {reason}; stop what uses it or choose another with --listen"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        reason: String,
    },
    /// The state directory cannot be used; the text says why and what to do.
    #[error("{0}")]
    StateDir(String),
    /// A live AllocSvr has the name.
    #[error(
        "the name {name:?} is in use by a running AllocSvr ({holder}); give this one another --name or stop the other"
    )]
    NameTaken {
        /// The name.
        name: String,
        /// Description of the holder by the store.
        holder: String,
    },
    /// A live AllocSvr of another name has the address.
    #[error(
        "the address {address} is in use by a running AllocSvr ({holder}); give this one an --advertise of its own or stop the other"
    )]
    AddressTaken {
        /// The address.
        address: String,
        /// Description of the holder by the store.
        holder: String,
    },
    /// The store rejects this AllocSvr permanently.
    #[error("the store rejects this AllocSvr: {0}")]
    Rejected(String),
    /// The stores, the state directory or the operator name different clusters; the text names them
    /// and says what to do. It may have several lines.
    #[error("{0}")]
    ClusterConflict(String),
    /// The lease is over, and the stores belong to another cluster.
    #[error(
        "cluster mismatch: the stores at {stores} belong to another cluster than this AllocSvr (..{own}), which may give the same numbers; correct --stores, or, if the cluster of this AllocSvr is gone permanently, start it again, with --join-cluster if it has a state directory"
    )]
    OtherCluster {
        /// Tag of this process's cluster.
        own: ClusterTag,
        /// Addresses of the stores.
        stores: String,
    },
    /// The gRPC server failed.
    #[error("the gRPC server failed: {0}")]
    Serve(String),
}

impl Error {
    /// Returns whether the AllocSvr does not start because of a setting, which only an operator
    /// corrects. What another process holds, such as a name, may be free at the next start.
    pub fn is_wrong_setting(&self) -> bool {
        matches!(
            self,
            Error::Options(_) | Error::NoAdvertiseAddress(_) | Error::ClusterConflict(_)
        )
    }
}
