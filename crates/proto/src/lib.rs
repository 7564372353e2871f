//! Generated gRPC types, conversions to core types, limits, and the transport they travel on.
//!
//! What lives here: [`v1`], generated from `proto/seqsvr/v1`; [`convert`], the only place where
//! wire types become core types (and are checked) and back; [`error`], the one way an error with
//! its machine-readable detail is put into a gRPC status and read out of it; [`cluster_tag`], which
//! cluster a message belongs to; [`limits`]; [`LocalSequence`], the service in the same process;
//! [`trace`], which trace a call belongs to; [`transport`], the seam between gRPC and the network
//! that all connecting and listening code shares.
//!
//! What it may not know: which process serves or calls; it keeps no connection and no state.

pub mod cluster_tag;
mod codec;
pub mod convert;
pub mod error;
pub mod limits;
mod local;
pub mod os;
pub mod trace;
pub mod transport;

pub use local::LocalSequence;

/// Types, clients and servers generated from `proto/seqsvr/v1`.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("seqsvr.v1");
}

/// Encoded descriptors of all services, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));
