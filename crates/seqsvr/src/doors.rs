//! The doors of an AllocSvr: what serves clients of other protocols.

use anyhow::Context;
use seqsvr_alloc::Alloc;
use seqsvr_gateway::{REDIS_PORT, RedisDoor, RedisOptions};
use seqsvr_proto::limits::ITEMS_MAX;
use seqsvr_proto::transport::Tcp;

use crate::cli;

/// Those that are open.
pub(crate) struct Doors {
    redis: Option<RedisDoor>,
}

impl Doors {
    /// Opens those that the command line asks for.
    pub(crate) async fn open(
        alloc: &Alloc,
        args: &cli::Doors,
        items_max: usize,
    ) -> anyhow::Result<Doors> {
        let Some(listen) = &args.redis_listen else {
            return Ok(Doors { redis: None });
        };
        let options = RedisOptions {
            connections_max: args.redis_connections_max as usize,
            password: args.redis_password.clone(),
            idle_max: args.redis_idle_max,
            items_max,
            ..RedisOptions::new(cli::socket_addr(listen, REDIS_PORT)?)
        };
        redis(alloc, options, "--redis-listen").await
    }

    /// Opens one for Redis clients on this port of loopback; 0: none.
    pub(crate) async fn on_port(alloc: &Alloc, port: u16) -> anyhow::Result<Doors> {
        if port == 0 {
            return Ok(Doors { redis: None });
        }
        let options = RedisOptions {
            items_max: ITEMS_MAX,
            ..RedisOptions::new(([127, 0, 0, 1], port).into())
        };
        redis(alloc, options, "--redis-port").await
    }

    /// Where it serves Redis clients.
    pub(crate) fn redis(&self) -> Option<std::net::SocketAddr> {
        self.redis.as_ref().map(RedisDoor::local_addr)
    }

    /// Takes no more connections, and ends those that there are.
    pub(crate) async fn shutdown(&self) {
        if let Some(redis) = &self.redis {
            redis.shutdown().await;
        }
    }
}

async fn redis(alloc: &Alloc, options: RedisOptions, flag: &str) -> anyhow::Result<Doors> {
    let listen = options.listen;
    let door = RedisDoor::open(options, &Tcp, alloc.sequence()).await;
    let door = door.with_context(|| {
        format!("cannot listen on {listen} for Redis clients; stop what uses it or choose another with {flag}")
    })?;
    Ok(Doors { redis: Some(door) })
}
