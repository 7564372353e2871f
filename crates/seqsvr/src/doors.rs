//! The Redis and HTTP endpoints of a server.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use futures::future::join;
use seqsvr_alloc::Alloc;
use seqsvr_gateway::{
    HTTP_PORT, HttpDoor, HttpOptions, REDIS_PORT, RedisDoor, RedisOptions, WATCHING_CONNECTIONS,
    http,
};
use seqsvr_proto::transport::Tcp;
use seqsvr_store::Store;

use crate::cli;
use crate::door_threads::DoorThreads;

/// The open endpoints of one server.
#[derive(Default)]
pub(crate) struct Doors {
    redis: Option<RedisDoor>,
    http: Option<HttpDoor>,
}

impl Doors {
    /// Opens the endpoints that the command line configures.
    ///
    /// # Errors
    /// An address cannot be resolved, or the server cannot listen on it.
    pub(crate) async fn open(
        alloc: &Alloc,
        threads: &DoorThreads,
        args: &cli::Doors,
        items_max: usize,
    ) -> anyhow::Result<Doors> {
        let mut doors = Doors::default();
        if let Some(listen) = &args.redis_listen {
            let options = RedisOptions {
                runtimes: threads.runtimes(),
                connections_max: args.redis_connections_max as usize,
                password: args.redis_password.clone(),
                idle_max: args.redis_idle_max,
                items_max,
                ..RedisOptions::new(cli::socket_addr(listen, REDIS_PORT)?)
            };
            let listen = options.listen;
            let door = RedisDoor::open(options, &Tcp, alloc.sequence()).await;
            doors.redis = Some(door.with_context(|| refused(listen, "Redis", "--redis-listen"))?);
        }
        if let Some(listen) = &args.http.http_listen {
            let options = HttpOptions {
                listen: cli::socket_addr(listen, HTTP_PORT)?,
                runtimes: threads.runtimes(),
                connections_max: args.http.http_connections_max as usize,
                idle_max: args.http.http_idle_max,
                local_only: false,
            };
            let listen = options.listen;
            let paths = paths(alloc, args.tinyid_token.clone());
            let door = HttpDoor::open(options, &Tcp, paths).await;
            doors.http = Some(door.with_context(|| refused(listen, "HTTP", "--http-listen"))?);
        }
        Ok(doors)
    }

    /// Opens a Redis endpoint at this address. If the address is in use there is none.
    ///
    /// # Errors
    /// The server cannot listen on the address; an address in use is an error if `must` is set.
    pub(crate) async fn redis_at(
        &mut self,
        alloc: &Alloc,
        threads: &DoorThreads,
        listen: SocketAddr,
        must: bool,
    ) -> anyhow::Result<()> {
        let options = RedisOptions {
            runtimes: threads.runtimes(),
            ..RedisOptions::new(listen)
        };
        let door = RedisDoor::open(options, &Tcp, alloc.sequence()).await;
        self.redis = unless_taken(door, listen, "Redis", "--redis-port", must)?;
        Ok(())
    }

    /// Opens an HTTP endpoint at this address. If the address is in use there is none.
    ///
    /// # Errors
    /// The server cannot listen on the address; an address in use is an error if `must` is set.
    pub(crate) async fn http_at(
        &mut self,
        alloc: &Alloc,
        threads: &DoorThreads,
        listen: SocketAddr,
        must: bool,
    ) -> anyhow::Result<()> {
        let options = HttpOptions {
            runtimes: threads.runtimes(),
            local_only: true,
            ..HttpOptions::new(listen)
        };
        let door = HttpDoor::open(options, &Tcp, paths(alloc, None)).await;
        self.http = unless_taken(door, listen, "HTTP", "--http-port", must)?;
        Ok(())
    }

    /// Opens the HTTP endpoint of a store: metrics and health checks.
    ///
    /// # Errors
    /// The server cannot listen on the address.
    pub(crate) async fn of_store(store: &Store, listen: SocketAddr) -> anyhow::Result<Doors> {
        let door = watching(store, listen, false).await;
        let http = door.with_context(|| refused(listen, "HTTP", "--http-listen"))?;
        Ok(Doors {
            http: Some(http),
            ..Doors::default()
        })
    }

    /// Opens the HTTP endpoint of a store for local clients. If the address is in use there is
    /// none.
    ///
    /// # Errors
    /// The server cannot listen on the address; an address in use is an error if `must` is set.
    pub(crate) async fn of_store_at(
        store: &Store,
        listen: SocketAddr,
        must: bool,
    ) -> anyhow::Result<Doors> {
        let door = watching(store, listen, true).await;
        Ok(Doors {
            http: unless_taken(door, listen, "HTTP", "--store-http-port", must)?,
            ..Doors::default()
        })
    }

    /// Returns the address of the Redis endpoint.
    pub(crate) fn redis(&self) -> Option<SocketAddr> {
        self.redis.as_ref().map(RedisDoor::local_addr)
    }

    /// Returns the address of the HTTP endpoint.
    pub(crate) fn http(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpDoor::local_addr)
    }

    /// Stops accepting connections and closes the open ones.
    pub(crate) async fn shutdown(&self) {
        let redis = async {
            if let Some(redis) = &self.redis {
                redis.shutdown().await;
            }
        };
        let http = async {
            if let Some(http) = &self.http {
                http.shutdown().await;
            }
        };
        join(redis, http).await;
    }
}

/// Returns all HTTP routes of an AllocSvr.
fn paths(alloc: &Alloc, tinyid_token: Option<String>) -> http::Paths {
    http::numbers(alloc.sequence(), tinyid_token)
        .merge(http::page(alloc.sequence(), alloc.admin()))
        .merge(http::operator(alloc.clone()))
}

async fn watching(store: &Store, listen: SocketAddr, local_only: bool) -> io::Result<HttpDoor> {
    let options = HttpOptions {
        local_only,
        connections_max: WATCHING_CONNECTIONS,
        ..HttpOptions::new(listen)
    };
    HttpDoor::open(options, &Tcp, http::operator(store.clone())).await
}

/// Returns the endpoint, or None with a warning if its address is in use and `must` is not set.
fn unless_taken<D>(
    door: io::Result<D>,
    listen: SocketAddr,
    name: &str,
    flag: &str,
    must: bool,
) -> anyhow::Result<Option<D>> {
    match door {
        Ok(door) => Ok(Some(door)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !must => {
            tracing::warn!(
                "{listen} is taken, so nothing is there for {name} clients; choose another port with {flag}"
            );
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| refused(listen, name, flag)),
    }
}

fn refused(listen: SocketAddr, name: &str, flag: &str) -> String {
    format!(
        "cannot listen on {listen} for {name} clients; stop what uses it or choose another with {flag}"
    )
}
