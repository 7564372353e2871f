//! The least that gRPC can do on this machine: a tonic service that adds in memory, with no owner,
//! no lease and no disk, and a generator that verifies as little as it can. What `peers` compares
//! with.
//!
//! The generator also makes the unary calls of the other gRPC services, so that each is asked by
//! the same code.

mod http;
pub mod load;
mod messages;
mod resp;
pub mod serve;

pub use http::serve_http;
pub use load::{Load, What};
pub use resp::serve_resp;
