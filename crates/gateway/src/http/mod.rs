//! HTTP/1.1: numbers as JSON, the paths of Leaf and Tinyid, and the paths for operators.
//!
//! ```text
//! mod          the door: what it is made of, and its bounds
//! connection   one connection               site   pages from which a browser may send requests
//! numbers      /v1/…: numbers as JSON       leaf, tinyid: their paths, and their errors (spring)
//!  ├─ heard    the fields of a request: query, memory
//!  └─ answer   the answer: refusal          routes the routing table, kept
//! page         the web page, and its data   paths  all of these, put together
//! operator     /metrics, /healthz, /readyz  exposition: metrics in the older text format
//! ```
//!
//! Each part has [`Paths`] of its own, so that a server has those that it can answer.

mod answer;
mod connection;
mod exposition;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod heard;
mod leaf;
mod memory;
mod numbers;
mod operator;
mod page;
mod paths;
mod query;
mod refusal;
mod routes;
mod site;
mod spring;
mod tag;
mod tinyid;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Uri;
use seqsvr_proto::LocalSequence;
use seqsvr_proto::transport::Transport;

pub use operator::operator;
pub use page::{Nodes, page, status};
pub use paths::Paths;

use crate::door::{Accepted, Door};
use crate::runtimes::Runtimes;
use memory::Memory;
use refusal::Refusal;

/// Default port of HTTP.
pub const HTTP_PORT: u16 = 7780;
/// Default port of HTTP at a StoreSvr, for operators.
pub const STORE_HTTP_PORT: u16 = 7880;
/// Connections for callers that only watch.
pub const WATCHING_CONNECTIONS: usize = 256;
/// Most connections at a time, unless configured.
pub const HTTP_CONNECTIONS_DEFAULT: usize = 10_000;
/// How long a connection may have no request, unless configured.
pub const HTTP_IDLE_DEFAULT: Duration = Duration::from_secs(75);
/// The answer to one connection too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 57\r\nretry-after: 1\r\nconnection: close\r\n\r\ntoo many connections: see --http-connections-max, or wait";

/// Settings of the door.
#[derive(Clone, Debug)]
pub struct HttpOptions {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where connections are served; None: in the runtime in which the door is opened.
    pub runtimes: Option<Runtimes>,
    /// Most connections at a time; the door rejects more.
    pub connections_max: usize,
    /// Time without a request after which a connection is closed.
    pub idle_max: Duration,
    /// Answer only requests that name this machine as localhost, or by an IP address: for a machine
    /// on which browsers run.
    pub local_only: bool,
}

/// An open door.
pub struct HttpDoor(Door);

/// Returns the paths that give numbers: JSON, Leaf's, and Tinyid's, whose callers must give `token`
/// if there is one. Must be called inside a tokio runtime, which reads large requests.
pub fn numbers<S: LocalSequence>(sequence: S, token: Option<String>) -> Paths {
    let (sequence, memory) = (Arc::new(sequence), Memory::new());
    let router = numbers::numbers(sequence.clone(), memory.clone())
        .merge(leaf::leaf(sequence.clone()))
        .merge(tinyid::tinyid(sequence.clone(), memory, token));
    Paths::from(router).with_at_once(move |request| numbers::at_once(&*sequence, request))
}

impl HttpOptions {
    /// Returns the defaults for everything except the address.
    pub fn new(listen: SocketAddr) -> HttpOptions {
        HttpOptions {
            listen,
            runtimes: None,
            connections_max: HTTP_CONNECTIONS_DEFAULT,
            idle_max: HTTP_IDLE_DEFAULT,
            local_only: false,
        }
    }
}

impl HttpDoor {
    /// Listens on the address and serves `paths` there.
    ///
    /// # Errors
    /// The door cannot listen on the address.
    pub async fn open(
        options: HttpOptions,
        transport: &dyn Transport,
        mut paths: Paths,
    ) -> io::Result<HttpDoor> {
        let listener = transport.listen(options.listen).await?;
        let idle_max = options.idle_max;
        paths.router = paths.router.fallback(nothing);
        let local_only = options.local_only;
        let serve = move |accepted: Accepted| {
            connection::serve(accepted, paths.clone(), idle_max, local_only)
        };
        let (runtimes, most) = (options.runtimes, options.connections_max);
        Door::open("HTTP", listener, runtimes, most, FULL, serve).map(HttpDoor)
    }

    /// Returns the address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local_addr()
    }

    /// Accepts no more, lets connections answer what they have received, and closes them.
    pub async fn shutdown(&self) {
        self.0.shutdown().await;
    }
}

/// Answers a request for a path that no part has.
async fn nothing(uri: Uri) -> Refusal {
    Refusal::nothing(uri.path())
}
