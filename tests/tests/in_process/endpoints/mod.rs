//! Protocols and networks between callers and servers.

mod access;
mod admin_relay;
mod dashboard;
mod families;
mod grpc_standards;
mod http;
mod local_ids;
mod next_ids;
mod pipe;
mod redis;
mod routing;
mod transport;
mod workers;
