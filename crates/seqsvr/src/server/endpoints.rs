//! The Redis and HTTP endpoints of a server.

use std::io;
use std::net::SocketAddr;

use anyhow::Context;
use futures::future::{join, join_all};
use seqsvr_access::Access;
use seqsvr_alloc::AllocServer;
use seqsvr_gateway::{
    HTTP_PORT, HttpOptions, HttpServer, METRICS_PORT, OPERATOR_CONNECTIONS_MAX, REDIS_PORT,
    RedisOptions, RedisServer, STORE_HTTP_PORT, http,
};
use seqsvr_net::{LocalSequence, TcpTransport, Transport};
use seqsvr_store::StoreServer;

use crate::cli;
use crate::output::exit_code::BadInput;
use crate::server::connection_threads::ConnectionThreads;
use crate::server::fd_limit::EndpointLimit;
use crate::server::listen_rules::{ListenAddress, is_routable};
use crate::server::tls::{EndpointNetworks, ServerTls};

/// Resolved addresses of the endpoints that the command line configures.
#[derive(Clone, Copy)]
pub(crate) struct EndpointAddresses {
    redis: Option<ListenAddress>,
    http: Option<ListenAddress>,
    metrics: Option<ListenAddress>,
}

impl EndpointAddresses {
    /// Resolves the addresses of an AllocSvr.
    ///
    /// # Errors
    /// A name has no address.
    pub(crate) fn resolve(
        args: &cli::EndpointArgs,
        tls: &ServerTls,
        has_principals: bool,
    ) -> Result<EndpointAddresses, BadInput> {
        // Without principals, every program of this host may call these on loopback.
        let caller = |flag, text: &Option<String>, port| {
            let address = resolve(flag, text.as_deref(), port)?;
            let is_closed = |at: ListenAddress| has_principals || is_routable(at.address().ip());
            Ok::<_, BadInput>(address.map(|at| at.under_tls(tls.is_on() && is_closed(at))))
        };
        let metrics = args.http.metrics_listen.as_deref();
        Ok(EndpointAddresses {
            redis: caller("--redis-listen", &args.redis_listen, REDIS_PORT)?,
            http: caller("--http-listen", &args.http.http_listen, HTTP_PORT)?,
            metrics: resolve_for_operators("--metrics-listen", metrics, METRICS_PORT, tls)?,
        })
    }

    /// Resolves the addresses of a store.
    ///
    /// # Errors
    /// A name has no address.
    pub(crate) fn resolve_for_store(
        args: &cli::StoreHttpArgs,
        tls: &ServerTls,
    ) -> Result<EndpointAddresses, BadInput> {
        let operator = |flag, text: &Option<String>| {
            resolve_for_operators(flag, text.as_deref(), STORE_HTTP_PORT, tls)
        };
        Ok(EndpointAddresses {
            redis: None,
            http: operator("--http-listen", &args.http_listen)?,
            metrics: operator("--metrics-listen", &args.metrics_listen)?,
        })
    }

    /// Returns the limits of connections of these endpoints of an AllocSvr.
    pub(crate) fn limits(&self, args: &cli::EndpointArgs) -> Vec<EndpointLimit> {
        let limit = |at: Option<ListenAddress>, name, connections_max| {
            at.map(|_| EndpointLimit {
                name,
                connections_max,
            })
        };
        let operator_max = OPERATOR_CONNECTIONS_MAX as u64;
        let (redis_max, http_max) = (args.redis_connections_max, args.http.http_connections_max);
        let limits = [
            limit(self.redis, "--redis-connections-max", redis_max),
            limit(self.http, "--http-connections-max", http_max),
            limit(self.metrics, "--metrics-listen", operator_max),
        ];
        limits.into_iter().flatten().collect()
    }

    /// Returns the limits of connections of these endpoints of a store.
    pub(crate) fn operator_limits(&self) -> Vec<EndpointLimit> {
        let limits = self.all().map(|at| EndpointLimit {
            name: at.flag(),
            connections_max: OPERATOR_CONNECTIONS_MAX as u64,
        });
        limits.collect()
    }

    /// Returns whether the Redis endpoint is under TLS.
    pub(crate) fn has_redis_tls(&self) -> bool {
        self.redis.is_some_and(|at| at.is_under_tls())
    }

    /// Returns whether the HTTP endpoint is under TLS.
    pub(crate) fn has_http_tls(&self) -> bool {
        self.http.is_some_and(|at| at.is_under_tls())
    }

    /// Returns the URL of the HTTP endpoint, which listens on `bound`.
    pub(crate) fn http_url(&self, bound: SocketAddr) -> String {
        format!("{}://{bound}", scheme(self.http))
    }

    /// Returns the URL of the metrics at the endpoint for them, which listens on `bound`.
    pub(crate) fn metrics_url(&self, bound: SocketAddr) -> String {
        format!("{}://{bound}/metrics", scheme(self.metrics))
    }

    /// Returns those that are configured.
    pub(crate) fn all(&self) -> impl Iterator<Item = ListenAddress> {
        [self.redis, self.http, self.metrics].into_iter().flatten()
    }
}

fn resolve(
    flag: &'static str,
    text: Option<&str>,
    port: u16,
) -> Result<Option<ListenAddress>, BadInput> {
    text.map(|text| ListenAddress::resolve(flag, text, port))
        .transpose()
}

fn scheme(address: Option<ListenAddress>) -> &'static str {
    match address.is_some_and(|at| at.is_under_tls()) {
        true => "https",
        false => "http",
    }
}

/// Resolves the address of an endpoint that has only metrics and health checks. On loopback it is
/// without TLS, for agents and probes of this host.
fn resolve_for_operators(
    flag: &'static str,
    text: Option<&str>,
    port: u16,
    tls: &ServerTls,
) -> Result<Option<ListenAddress>, BadInput> {
    let address = resolve(flag, text, port)?;
    Ok(address.map(|at| at.under_tls(tls.is_on() && is_routable(at.address().ip()))))
}

/// The open endpoints of one server.
#[derive(Default)]
pub(crate) struct Endpoints {
    redis: Option<RedisServer>,
    http: Option<HttpServer>,
    /// Metrics and health checks alone; None: they are on the HTTP endpoint.
    metrics: Option<HttpServer>,
}

impl Endpoints {
    /// Opens the endpoints that the command line configures, each for at most `connections_cap`
    /// connections.
    ///
    /// # Errors
    /// The server cannot listen on an address.
    pub(crate) async fn open_configured(
        alloc: &AllocServer,
        threads: &ConnectionThreads,
        args: &cli::EndpointArgs,
        addresses: EndpointAddresses,
        networks: &EndpointNetworks,
        batch_items_max: usize,
        connections_cap: u64,
    ) -> anyhow::Result<Endpoints> {
        let mut endpoints = Endpoints::default();
        let capped = |connections_max: u64| connections_max.min(connections_cap) as usize;
        if let Some(listen) = addresses.redis {
            let options = RedisOptions {
                runtimes: threads.runtimes(),
                connections_max: capped(args.redis_connections_max),
                idle_timeout: args.redis_idle_timeout,
                batch_items_max,
                ..RedisOptions::new(listen.address())
            };
            let network = networks.redis(listen);
            let endpoint = RedisServer::start(options, &*network, alloc.sequence()).await;
            let (listen, flag) = (listen.address(), "--redis-listen");
            endpoints.redis = none_if_in_use(endpoint, listen, "Redis", flag, true)?;
        }
        let http = &args.http;
        let operator_routes = || alloc_operator_routes(alloc);
        if let Some(listen) = addresses.metrics {
            let options = HttpOptions {
                runtimes: threads.runtimes(),
                connections_max: capped(OPERATOR_CONNECTIONS_MAX as u64),
                hosts: http.hosts.http_host.clone(),
                ..HttpOptions::new(listen.address())
            };
            let (routes, network) = (operator_routes(), networks.http(listen));
            let flag = "--metrics-listen";
            endpoints.metrics = open_http(options, flag, &*network, routes, true).await?;
        }
        if let Some(listen) = addresses.http {
            let options = HttpOptions {
                listen: listen.address(),
                runtimes: threads.runtimes(),
                connections_max: capped(http.http_connections_max),
                idle_timeout: http.http_idle_timeout,
                hosts: http.hosts.http_host.clone(),
            };
            let mut routes = caller_routes(alloc);
            if endpoints.metrics.is_none() {
                routes = routes.merge(operator_routes());
            }
            let network = networks.http(listen);
            endpoints.http = open_http(options, "--http-listen", &*network, routes, true).await?;
        }
        endpoints.announce_page(alloc);
        Ok(endpoints)
    }

    /// Records the address of the HTTP endpoint for the pages of other AllocSvrs.
    fn announce_page(&self, alloc: &AllocServer) {
        if let Some(address) = self.http_addr() {
            alloc.set_http_address(address);
        }
    }

    /// Opens a Redis endpoint for at most `connections_cap` connections at this address. If the
    /// address is in use there is none.
    ///
    /// # Errors
    /// The server cannot listen on the address. An address in use is an error if `is_required` is
    /// set.
    pub(crate) async fn open_redis(
        &mut self,
        alloc: &AllocServer,
        threads: &ConnectionThreads,
        listen: SocketAddr,
        is_required: bool,
        connections_cap: u64,
    ) -> anyhow::Result<()> {
        let defaults = RedisOptions::new(listen);
        let options = RedisOptions {
            runtimes: threads.runtimes(),
            connections_max: defaults.connections_max.min(connections_cap as usize),
            ..defaults
        };
        let endpoint = RedisServer::start(options, &TcpTransport, alloc.sequence()).await;
        self.redis = none_if_in_use(endpoint, listen, "Redis", "--redis-port", is_required)?;
        Ok(())
    }

    /// Opens an HTTP endpoint for at most `connections_cap` connections at this address. If the
    /// address is in use there is none.
    ///
    /// # Errors
    /// The server cannot listen on the address. An address in use is an error if `is_required` is
    /// set.
    pub(crate) async fn open_http(
        &mut self,
        alloc: &AllocServer,
        threads: &ConnectionThreads,
        listen: SocketAddr,
        is_required: bool,
        connections_cap: u64,
    ) -> anyhow::Result<()> {
        let defaults = HttpOptions::new(listen);
        let options = HttpOptions {
            runtimes: threads.runtimes(),
            connections_max: defaults.connections_max.min(connections_cap as usize),
            ..defaults
        };
        let routes = caller_routes(alloc).merge(alloc_operator_routes(alloc));
        let flag = "--http-port";
        self.http = open_http(options, flag, &TcpTransport, routes, is_required).await?;
        self.announce_page(alloc);
        Ok(())
    }

    /// Opens the endpoints of a store that the command line configures, each for at most
    /// `connections_cap` connections. With a metrics endpoint, the HTTP endpoint has no path.
    ///
    /// # Errors
    /// The server cannot listen on an address.
    pub(crate) async fn open_for_store(
        store: &StoreServer,
        args: &cli::StoreHttpArgs,
        addresses: EndpointAddresses,
        networks: &EndpointNetworks,
        connections_cap: u64,
    ) -> anyhow::Result<Endpoints> {
        let mut endpoints = Endpoints::default();
        let options = |listen: ListenAddress| HttpOptions {
            hosts: args.hosts.http_host.clone(),
            ..store_http_options(listen.address(), connections_cap)
        };
        let mut routes = http::operator_routes(store.clone(), Access::by_role());
        if let Some(listen) = addresses.metrics {
            let no_path = http::Routes::empty(Access::by_role());
            let routes = std::mem::replace(&mut routes, no_path);
            let (options, flag, network) =
                (options(listen), "--metrics-listen", networks.http(listen));
            endpoints.metrics = open_http(options, flag, &*network, routes, true).await?;
        }
        if let Some(listen) = addresses.http {
            let (options, network) = (options(listen), networks.http(listen));
            endpoints.http = open_http(options, "--http-listen", &*network, routes, true).await?;
        }
        Ok(endpoints)
    }

    /// Opens the HTTP endpoint of a store for local clients, for at most `connections_cap`
    /// connections. If the address is in use there is none.
    ///
    /// # Errors
    /// The server cannot listen on the address. An address in use is an error if `is_required` is
    /// set.
    pub(crate) async fn open_local_for_store(
        store: &StoreServer,
        listen: SocketAddr,
        is_required: bool,
        connections_cap: u64,
    ) -> anyhow::Result<Endpoints> {
        let routes = http::operator_routes(store.clone(), Access::by_role());
        let options = store_http_options(listen, connections_cap);
        Ok(Endpoints {
            http: open_http(
                options,
                "--store-http-port",
                &TcpTransport,
                routes,
                is_required,
            )
            .await?,
            ..Endpoints::default()
        })
    }

    /// Returns the addresses of the open ports, each under the flag that configured it.
    pub(crate) fn bound_addresses(
        &self,
        configured: EndpointAddresses,
    ) -> impl Iterator<Item = ListenAddress> {
        let bound = |at: Option<ListenAddress>, address: Option<SocketAddr>| {
            at.zip(address).map(|(at, address)| at.with_bound(address))
        };
        let redis = bound(configured.redis, self.redis_addr());
        let http = bound(configured.http, self.http_addr());
        let metrics = bound(configured.metrics, self.metrics_addr());
        [redis, http, metrics].into_iter().flatten()
    }

    /// Returns the address of the Redis endpoint.
    pub(crate) fn redis_addr(&self) -> Option<SocketAddr> {
        self.redis.as_ref().map(RedisServer::local_addr)
    }

    /// Returns the address of the HTTP endpoint.
    pub(crate) fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(HttpServer::local_addr)
    }

    /// Returns the address of the endpoint for metrics alone.
    pub(crate) fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(HttpServer::local_addr)
    }

    /// Stops accepting connections and closes the open ones.
    pub(crate) async fn shutdown(&self) {
        let redis = async {
            if let Some(redis) = &self.redis {
                redis.shutdown().await;
            }
        };
        let http_servers = self.http.iter().chain(&self.metrics);
        let http = join_all(http_servers.map(HttpServer::shutdown));
        join(redis, http).await;
    }
}

/// Returns the HTTP routes of an AllocSvr for callers and browsers.
fn caller_routes(alloc: &AllocServer) -> http::Routes {
    http::number_routes(alloc.sequence()).merge(http::dashboard_routes(
        alloc.sequence(),
        alloc.admin(),
        alloc.transport(),
    ))
}

/// Returns the HTTP routes of an AllocSvr for operators.
fn alloc_operator_routes(alloc: &AllocServer) -> http::Routes {
    let access = alloc.sequence().access().clone();
    http::operator_routes(alloc.clone(), access)
}

/// Returns the options of an HTTP endpoint of a store.
fn store_http_options(listen: SocketAddr, connections_cap: u64) -> HttpOptions {
    HttpOptions {
        connections_max: OPERATOR_CONNECTIONS_MAX.min(connections_cap as usize),
        ..HttpOptions::new(listen)
    }
}

/// Opens an HTTP endpoint, which this flag configures. Returns None and logs a warning if its
/// address is in use and `is_required` is not set.
///
/// # Errors
/// The server cannot listen on the address.
async fn open_http(
    options: HttpOptions,
    flag: &str,
    network: &dyn Transport,
    routes: http::Routes,
    is_required: bool,
) -> anyhow::Result<Option<HttpServer>> {
    let listen = options.listen;
    let endpoint = HttpServer::start(options, network, routes).await;
    none_if_in_use(endpoint, listen, "HTTP", flag, is_required)
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
        Err(error) => Err(error).with_context(|| {
            format!(
                "cannot listen on {listen} for {name} clients; stop the process that uses this address, or choose another with {flag}"
            )
        }),
    }
}
