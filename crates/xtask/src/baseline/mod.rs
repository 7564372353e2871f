//! Baseline services, and the load generator of gRPC services.
//!
//! A baseline service does the least work that its protocol allows on this machine: it adds in
//! memory, without owner, lease and disk. `compare` measures seqsvr beside it.
//!
//! The generator verifies as little as it can. It also makes the unary calls of the other gRPC
//! services, so that all of them are called by the same code.

mod foreign_messages;
mod grpc_load;
mod grpc_server;
mod http;
mod resp;

pub use grpc_load::{GrpcLoad, LoadKind, run_load};
pub use grpc_server::serve_grpc;
pub use http::serve_http;
pub use resp::serve_resp;
