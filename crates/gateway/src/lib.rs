//! Front doors: protocols that other people's clients speak, over the calls of a `Sequence`.
//!
//! What lives here: [`RedisDoor`], the Redis protocol; [`HttpDoor`], HTTP, made of parts;
//! [`Runtimes`], where connections are served. A door receives the service itself, so a key of this
//! process is a function call and not a hop; the service forwards the others.
//!
//! What it may not know: leases, sections, the store. Its requests pass no gRPC server, so it sets
//! its own limits: connections, bytes held, depth of pipelines, and the time anything may take.

mod connection_runtimes;
mod constant_time;
#[cfg(fuzzing)]
pub mod fuzz;
pub mod http;
mod listener;
mod redis;
mod stride;
#[cfg(test)]
mod test_util;

pub use connection_runtimes::Runtimes;
pub use http::{
    HTTP_CONNECTIONS_DEFAULT, HTTP_IDLE_DEFAULT, HTTP_PORT, HttpDoor, HttpOptions, STORE_HTTP_PORT,
    WATCHING_CONNECTIONS,
};
pub use redis::{REDIS_CONNECTIONS_DEFAULT, REDIS_PORT, RedisDoor, RedisOptions};
