//! The Redis endpoint: bytes in, bytes out, over sockets, in front of real AllocSvrs.
//!
//! Compares whole answers, in pieces, pipelines and with bad input.

mod commands;
mod incr_steps;
mod limits;
mod pipelines;
pub(super) mod resp_caller;
mod start_values;
mod transactions;

use seqsvr_alloc::AllocServer;
use seqsvr_gateway::{RedisOptions, RedisServer};
use seqsvr_net::TcpTransport;
use seqsvr_test_support::in_process::any_port;

async fn open_endpoint(alloc: &AllocServer) -> RedisServer {
    open_endpoint_with(alloc, RedisOptions::new(any_port())).await
}

async fn open_endpoint_with(alloc: &AllocServer, options: RedisOptions) -> RedisServer {
    RedisServer::start(options, &TcpTransport, alloc.sequence())
        .await
        .unwrap()
}
