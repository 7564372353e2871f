//! Generated gRPC types, conversions to core types, errors and limits.
//!
//! What lives here: [`v1`], generated from `proto/seqsvr/v1`; [`convert`], the only place where
//! wire types become core types (and are checked) and back; [`error`], the one way an error with
//! its machine-readable detail is put into a gRPC status and read out of it; [`key`], the owned
//! key of a call; [`cluster_tag`], which cluster a message belongs to; [`limits`];
//! [`trace_context`], which trace a call belongs to; [`encoded_message`], an answer that many
//! callers share; [`node_status`], how much of the status of another process is shown;
//! [`printable`], text of others for a terminal or a log.
//!
//! What it may not know: connections; which process serves or calls. It keeps no state.

pub mod cluster_tag;
mod codec;
pub mod convert;
pub mod encoded_message;
pub mod error;
pub mod key;
pub mod limits;
pub mod node_status;
pub mod printable;
pub mod trace_context;

/// Types, clients and servers generated from `proto/seqsvr/v1`.
#[allow(missing_docs, clippy::all, unreachable_pub, reason = "generated code")]
pub mod v1 {
    tonic::include_proto!("seqsvr.v1");
}

/// Encoded descriptors of all services, for gRPC reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptor.bin"));
