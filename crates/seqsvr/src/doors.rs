//! The doors of an AllocSvr: what serves clients of other protocols.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use seqsvr_alloc::Alloc;
use seqsvr_gateway::{REDIS_PORT, RedisDoor, RedisOptions};
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
        let listen = options.listen;
        let door = RedisDoor::open(options, &Tcp, alloc.sequence()).await;
        let door = door.with_context(|| refused(listen, "--redis-listen"))?;
        Ok(Doors { redis: Some(door) })
    }

    /// Opens one for Redis clients at this address. Where that is taken there is none, unless it `must` be.
    pub(crate) async fn at(alloc: &Alloc, listen: SocketAddr, must: bool) -> anyhow::Result<Doors> {
        let door = RedisDoor::open(RedisOptions::new(listen), &Tcp, alloc.sequence()).await;
        match door {
            Ok(door) => Ok(Doors { redis: Some(door) }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && !must => {
                tracing::warn!(
                    "{listen} is taken, so nothing is there for Redis clients; choose another port with --redis-port"
                );
                Ok(Doors { redis: None })
            }
            Err(error) => Err(error).with_context(|| refused(listen, "--redis-port")),
        }
    }

    /// Where it serves Redis clients.
    pub(crate) fn redis(&self) -> Option<SocketAddr> {
        self.redis.as_ref().map(RedisDoor::local_addr)
    }

    /// Takes no more connections, and ends those that there are.
    pub(crate) async fn shutdown(&self) {
        if let Some(redis) = &self.redis {
            redis.shutdown().await;
        }
    }
}

fn refused(listen: SocketAddr, flag: &str) -> String {
    format!(
        "cannot listen on {listen} for Redis clients; stop what uses it or choose another with {flag}"
    )
}
