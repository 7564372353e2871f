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
use crate::server::connection_threads::ConnectionThreads;

/// The open endpoints of one server.
#[derive(Default)]
pub(crate) struct Endpoints {
    redis: Option<RedisDoor>,
    http: Option<HttpDoor>,
}

impl Endpoints {
    /// Opens the endpoints that the command line configures.
    ///
    /// # Errors
    /// An address cannot be resolved, or the server cannot listen on it.
    pub(crate) async fn open_configured(
        alloc: &Alloc,
        threads: &ConnectionThreads,
        args: &cli::EndpointArgs,
        items_max: usize,
    ) -> anyhow::Result<Endpoints> {
        let mut endpoints = Endpoints::default();
        if let Some(listen) = &args.redis_listen {
            let options = RedisOptions {
                runtimes: threads.runtimes(),
                connections_max: args.redis_connections_max as usize,
                password: args.redis_password.clone(),
                idle_max: args.redis_idle_max,
                items_max,
                ..RedisOptions::new(cli::resolve_address(listen, REDIS_PORT)?)
            };
            let listen = options.listen;
            let endpoint = RedisDoor::open(options, &Tcp, alloc.sequence()).await;
            endpoints.redis = Some(
                endpoint
                    .with_context(|| describe_listen_error(listen, "Redis", "--redis-listen"))?,
            );
        }
        if let Some(listen) = &args.http.http_listen {
            let options = HttpOptions {
                listen: cli::resolve_address(listen, HTTP_PORT)?,
                runtimes: threads.runtimes(),
                connections_max: args.http.http_connections_max as usize,
                idle_max: args.http.http_idle_max,
                local_only: false,
            };
            let listen = options.listen;
            let routes = http_routes(alloc, args.tinyid_token.clone());
            let endpoint = HttpDoor::open(options, &Tcp, routes).await;
            endpoints.http = Some(
                endpoint.with_context(|| describe_listen_error(listen, "HTTP", "--http-listen"))?,
            );
        }
        Ok(endpoints)
    }

    /// Opens a Redis endpoint at this address. If the address is in use there is none.
    ///
    /// # Errors
    /// The server cannot listen on the address. An address in use is an error if `is_required` is
    /// set.
    pub(crate) async fn open_redis(
        &mut self,
        alloc: &Alloc,
        threads: &ConnectionThreads,
        listen: SocketAddr,
        is_required: bool,
    ) -> anyhow::Result<()> {
        let options = RedisOptions {
            runtimes: threads.runtimes(),
            ..RedisOptions::new(listen)
        };
        let endpoint = RedisDoor::open(options, &Tcp, alloc.sequence()).await;
        self.redis = none_if_in_use(endpoint, listen, "Redis", "--redis-port", is_required)?;
        Ok(())
    }

    /// Opens an HTTP endpoint at this address. If the address is in use there is none.
    ///
    /// # Errors
    /// The server cannot listen on the address. An address in use is an error if `is_required` is
    /// set.
    pub(crate) async fn open_http(
        &mut self,
        alloc: &Alloc,
        threads: &ConnectionThreads,
        listen: SocketAddr,
        is_required: bool,
    ) -> anyhow::Result<()> {
        let options = HttpOptions {
            runtimes: threads.runtimes(),
            local_only: true,
            ..HttpOptions::new(listen)
        };
        let endpoint = HttpDoor::open(options, &Tcp, http_routes(alloc, None)).await;
        self.http = none_if_in_use(endpoint, listen, "HTTP", "--http-port", is_required)?;
        Ok(())
    }

    /// Opens the HTTP endpoint of a store: metrics and health checks.
    ///
    /// # Errors
    /// The server cannot listen on the address.
    pub(crate) async fn open_for_store(
        store: &Store,
        listen: SocketAddr,
    ) -> anyhow::Result<Endpoints> {
        let endpoint = open_store_http(store, listen, false).await;
        let http =
            endpoint.with_context(|| describe_listen_error(listen, "HTTP", "--http-listen"))?;
        Ok(Endpoints {
            http: Some(http),
            ..Endpoints::default()
        })
    }

    /// Opens the HTTP endpoint of a store for local clients. If the address is in use there is
    /// none.
    ///
    /// # Errors
    /// The server cannot listen on the address. An address in use is an error if `is_required` is
    /// set.
    pub(crate) async fn open_local_for_store(
        store: &Store,
        listen: SocketAddr,
        is_required: bool,
    ) -> anyhow::Result<Endpoints> {
        let endpoint = open_store_http(store, listen, true).await;
        Ok(Endpoints {
            http: none_if_in_use(endpoint, listen, "HTTP", "--store-http-port", is_required)?,
            ..Endpoints::default()
        })
    }

    /// Returns the address of the Redis endpoint.
    pub(crate) fn redis_addr(&self) -> Option<SocketAddr> {
        self.redis.as_ref().map(RedisDoor::local_addr)
    }

    /// Returns the address of the HTTP endpoint.
    pub(crate) fn http_addr(&self) -> Option<SocketAddr> {
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
fn http_routes(alloc: &Alloc, tinyid_token: Option<String>) -> http::Paths {
    http::numbers(alloc.sequence(), tinyid_token)
        .merge(http::page(alloc.sequence(), alloc.admin()))
        .merge(http::operator(alloc.clone()))
}

/// Opens the HTTP endpoint of a store.
async fn open_store_http(
    store: &Store,
    listen: SocketAddr,
    local_only: bool,
) -> io::Result<HttpDoor> {
    let options = HttpOptions {
        local_only,
        connections_max: WATCHING_CONNECTIONS,
        ..HttpOptions::new(listen)
    };
    HttpDoor::open(options, &Tcp, http::operator(store.clone())).await
}

/// Returns the endpoint. Returns None and logs a warning if its address is in use and `is_required`
/// is not set.
fn none_if_in_use<E>(
    endpoint: io::Result<E>,
    listen: SocketAddr,
    name: &str,
    flag: &str,
    is_required: bool,
) -> anyhow::Result<Option<E>> {
    match endpoint {
        Ok(endpoint) => Ok(Some(endpoint)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && !is_required => {
            tracing::warn!(
                %listen,
                endpoint = name,
                flag,
                "endpoint disabled: the address is in use; choose another port with the flag"
            );
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| describe_listen_error(listen, name, flag)),
    }
}

/// Returns the context of an error to listen on an address.
fn describe_listen_error(listen: SocketAddr, name: &str, flag: &str) -> String {
    format!(
        "cannot listen on {listen} for {name} clients; stop the process that uses this address, or choose another with {flag}"
    )
}
