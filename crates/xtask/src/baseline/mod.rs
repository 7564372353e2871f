//! The least that gRPC can do on this machine: a tonic service that adds in memory, with no owner,
//! no lease and no disk, and a generator that verifies as little as it can. What `peers` compares
//! with.
//!
//! The generator also makes the unary calls of the other gRPC services, so that each is asked by
//! the same code.

mod foreign_messages;
pub mod grpc_load;
pub mod grpc_server;
mod http;
mod resp;

pub use grpc_load::{Load, What};
pub use http::serve_http;
pub use resp::serve_resp;
