//! Redis and HTTP endpoints: protocols of other clients, over the calls of a `Sequence`.
//!
//! What lives here: [`RedisServer`], the server of the Redis protocol; [`HttpServer`], the HTTP
//! server, which is made of parts; [`ConnectionRuntimes`], which serve the connections. An endpoint
//! has the service itself, so a request for a key of this process is a function call; the service
//! forwards the others.
//!
//! What it may not know: leases, sections, the store. Its requests pass no gRPC server, so it sets
//! its own limits: of connections, of bytes held, of commands executed together, and of time.

mod connection_runtimes;
#[cfg(test)]
mod counting_sequence;
#[cfg(fuzzing)]
pub mod fuzz;
pub mod http;
mod listener;
mod redis;
mod stride;
#[cfg(test)]
mod test_util;
mod wrong_secrets;

pub use connection_runtimes::ConnectionRuntimes;
pub use http::{
    HTTP_ANSWER_WITHOUT_TLS, HTTP_CONNECTIONS_DEFAULT, HTTP_IDLE_TIMEOUT_DEFAULT, HTTP_PORT,
    HttpHost, HttpOptions, HttpServer, METRICS_PORT, OPERATOR_CONNECTIONS_MAX, STORE_HTTP_PORT,
};
pub use redis::{
    REDIS_ANSWER_WITHOUT_TLS, REDIS_CONNECTIONS_DEFAULT, REDIS_PORT, RedisOptions, RedisServer,
};
