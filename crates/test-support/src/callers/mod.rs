//! Callers of the public contract: the SDK, a plain gRPC caller, and clients of other protocols.

mod attempt;
mod endpoint;
mod grpc;
mod http;
mod redis;
mod test_call;
mod test_caller;

pub use endpoint::EndpointCaller;
pub use grpc::GrpcCaller;
pub use test_call::{ItemOutcome, TestCall, next_answer};
pub use test_caller::TestCaller;
