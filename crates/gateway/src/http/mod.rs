//! HTTP/1.1: numbers as JSON, the paths of Leaf and Tinyid, and the paths for operators.
//!
//! ```text
//! mod            the server: its parts, and its limits
//! connection     one connection              request_check  host, origin, browser of a request
//! routes         routes of all parts, merged   identity    who sends a request, and may it
//! json           /v1/…: numbers as JSON      compat        the paths of Leaf and Tinyid
//!  ├─ body       the body of a request       query         the fields of a query or form
//!  ├─ response   the response                error         the response of an error
//!  └─ memory_limit  memory of large requests
//! dashboard      the web page, and its data  operator      /metrics, /healthz, /readyz
//! ```
//!
//! Each part has [`Routes`] of its own, so that a server has only those that it can answer.

mod body;
mod compat;
mod connection;
mod dashboard;
mod error;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod identity;
mod json;
mod memory_limit;
mod operator;
mod query;
mod request_check;
mod response;
mod routes;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use seqsvr_net::{LocalSequence, Transport};

pub use dashboard::{NodeStatuses, cluster_status_json, dashboard_routes};
pub use identity::{ROUTE_RULES, RouteRight, RouteRule};
pub use operator::operator_routes;
pub use request_check::HttpHost;
pub use routes::Routes;

use crate::connection_runtimes::ConnectionRuntimes;
use crate::listener::{AcceptedConnection, ProtocolListener};
use error::HttpError;
use memory_limit::MemoryLimit;

/// Default port of HTTP.
pub const HTTP_PORT: u16 = 7780;
/// Default HTTP port of a StoreSvr, for operators.
pub const STORE_HTTP_PORT: u16 = 7880;
/// Default port of the metrics endpoint of an AllocSvr.
pub const METRICS_PORT: u16 = 7790;
/// Maximum connections at a time of a server that has only the paths for operators.
pub const OPERATOR_CONNECTIONS_MAX: usize = 256;
/// Default maximum of connections at a time.
pub const HTTP_CONNECTIONS_DEFAULT: usize = 10_000;
/// Default time without a request after which a connection is closed.
pub const HTTP_IDLE_TIMEOUT_DEFAULT: Duration = Duration::from_secs(75);
/// The response to a connection above the limit.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 57\r\nretry-after: 1\r\nconnection: close\r\nx-content-type-options: nosniff\r\ncache-control: no-store\r\ncross-origin-resource-policy: same-origin\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\r\ntoo many connections: see --http-connections-max, or wait";

/// The response to a caller without TLS, at a port that speaks TLS only.
pub const HTTP_ANSWER_WITHOUT_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: 40\r\nconnection: close\r\nx-content-type-options: nosniff\r\ncache-control: no-store\r\ncross-origin-resource-policy: same-origin\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: default-src 'none'; frame-ancestors 'none'\r\n\r\nthis port speaks TLS only; use https://\n";

/// Settings of the HTTP server.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Runtimes that serve connections; None: the runtime in which the server is started.
    pub runtimes: Option<ConnectionRuntimes>,
    /// Maximum connections at a time; the server rejects more.
    pub connections_max: usize,
    /// Time without a request after which a connection is closed.
    pub idle_timeout: Duration,
    /// Hosts that requests may name, in addition to the IP addresses of this machine, and to
    /// localhost for a client on this machine. The server rejects others.
    pub hosts: Vec<HttpHost>,
}

/// An HTTP server.
pub struct HttpServer(ProtocolListener);

/// Returns the routes for numbers: JSON, Leaf's, and Tinyid's. Must be called inside a tokio
/// runtime, which parses large requests.
pub fn number_routes<S: LocalSequence>(sequence: S) -> Routes {
    let (sequence, memory) = (Arc::new(sequence), MemoryLimit::new());
    let router = json::json_routes(sequence.clone(), memory.clone())
        .merge(compat::compat_routes(sequence.clone(), memory));
    Routes::new(router, sequence.access().clone())
        .with_fast_handler(move |caller, request| json::try_fast(&*sequence, caller, request))
}

impl HttpOptions {
    /// Returns the defaults for everything except the address.
    pub fn new(listen: SocketAddr) -> HttpOptions {
        HttpOptions {
            listen,
            runtimes: None,
            connections_max: HTTP_CONNECTIONS_DEFAULT,
            idle_timeout: HTTP_IDLE_TIMEOUT_DEFAULT,
            hosts: Vec::new(),
        }
    }
}

impl HttpServer {
    /// Listens on the address and serves `routes` there.
    ///
    /// # Errors
    /// The server cannot listen on the address.
    pub async fn start(
        options: HttpOptions,
        transport: &dyn Transport,
        mut routes: Routes,
    ) -> io::Result<HttpServer> {
        let listener = transport.listen(options.listen).await?;
        let idle_timeout = options.idle_timeout;
        routes.router = routes.router.fallback(reject_unknown_path);
        let hosts: Arc<[HttpHost]> = options.hosts.into();
        let serve = move |accepted: AcceptedConnection| {
            connection::serve_connection(accepted, routes.clone(), idle_timeout, hosts.clone())
        };
        let listener = ProtocolListener::start(
            "HTTP",
            listener,
            options.runtimes,
            options.connections_max,
            TOO_MANY_CONNECTIONS,
            serve,
        )?;
        Ok(HttpServer(listener))
    }

    /// Returns the address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Stops accepting, lets connections answer the requests that they have received, and closes
    /// them.
    pub async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}

/// Answers a request for a path that no part has.
async fn reject_unknown_path(uri: Uri) -> HttpError {
    HttpError::unknown_path(uri.path())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_before_http_have_the_length_that_they_say() {
        for answer in [TOO_MANY_CONNECTIONS, HTTP_ANSWER_WITHOUT_TLS] {
            let text = str::from_utf8(answer).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let length = format!("\r\ncontent-length: {}\r\n", body.len());
            assert!(head.contains(&length), "{text}");
            for header in ["connection: close", "cache-control: no-store"] {
                assert!(head.contains(header), "{text}");
            }
        }
    }
}
