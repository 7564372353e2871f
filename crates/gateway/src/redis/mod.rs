//! The Redis protocol, RESP2 and RESP3: the part of it that counters need.
//!
//! ```text
//! mod           the server: accepts connections, up to a limit; shuts down
//! connection    bytes in, bytes out          shared     the state that all connections share
//!  ├─ parser    bytes ──> words              command    words ──> one command
//!  ├─ command_batch  commands of a pipeline that run together (batch_plan), and their keys (key)
//!  │   └─ executor   their calls of the service; error: its errors
//!  ├─ transaction    commands between MULTI and EXEC
//!  ├─ session   commands that need no number: HELLO, AUTH, CLIENT, INFO, …; identity: the caller
//!  └─ reply     replies ──> bytes
//! ```

mod batch_plan;
mod command;
mod command_batch;
mod connection;
mod error;
mod executor;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod key;
mod parser;
mod reply;
mod session;
mod shared;
mod transaction;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_net::{LocalSequence, Transport};
use seqsvr_proto::limits::ITEMS_MAX;

use command_batch::BATCH_COMMANDS_MAX;
use connection::RedisConnection;
use shared::RedisShared;

use crate::connection_runtimes::ConnectionRuntimes;
use crate::listener::{AcceptedConnection, ProtocolListener};

/// Default port of the Redis protocol.
pub const REDIS_PORT: u16 = 6380;
/// Default maximum of connections at a time: as many as Redis accepts.
pub const REDIS_CONNECTIONS_DEFAULT: usize = 10_000;
/// The reply to a connection above the limit.
const TOO_MANY_CONNECTIONS: &[u8] =
    b"-ERR max number of clients reached (--redis-connections-max)\r\n";

/// The answer to a client without TLS, for a server under TLS
/// ([`TlsTransport::for_endpoint`](seqsvr_net::tls::TlsTransport::for_endpoint)).
pub const REDIS_ANSWER_WITHOUT_TLS: &[u8] = b"-ERR this port speaks TLS only; connect with TLS and the CA of the server (redis-cli --tls --cacert FILE)\r\n";

/// Settings of the Redis server.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Runtimes that serve connections; None: the runtime in which the server is started.
    pub runtimes: Option<ConnectionRuntimes>,
    /// Maximum connections at a time; the server rejects more.
    pub connections_max: usize,
    /// Time without a command after which a connection is closed; None: no limit.
    pub idle_timeout: Option<Duration>,
    /// Maximum items of one call of the service.
    pub batch_items_max: usize,
}

/// A server of the Redis protocol.
pub struct RedisServer {
    listener: ProtocolListener,
    shared: Arc<RedisShared>,
}

impl RedisOptions {
    /// Returns the defaults for everything except the address.
    pub fn new(listen: SocketAddr) -> RedisOptions {
        RedisOptions {
            listen,
            runtimes: None,
            connections_max: REDIS_CONNECTIONS_DEFAULT,
            idle_timeout: None,
            batch_items_max: ITEMS_MAX,
        }
    }
}

impl RedisServer {
    /// Listens on the address and serves `sequence` there.
    ///
    /// # Errors
    /// The server cannot listen on the address.
    pub async fn start(
        options: RedisOptions,
        transport: &dyn Transport,
        sequence: impl LocalSequence,
    ) -> io::Result<RedisServer> {
        let listener = transport.listen(options.listen).await?;
        let shared = Arc::new(RedisShared::new(
            options.connections_max,
            listener.local_addr()?.port(),
        ));
        let batch_items_max = options.batch_items_max.min(BATCH_COMMANDS_MAX);
        let idle_timeout = options.idle_timeout;
        let sequence = Arc::new(sequence);
        let connections_shared = shared.clone();
        let serve = move |accepted: AcceptedConnection| {
            let (sequence, shared) = (sequence.clone(), connections_shared.clone());
            async move {
                let connection = RedisConnection {
                    sequence: &*sequence,
                    peer: accepted.peer,
                    shared: &shared,
                    batch_items_max,
                    idle_timeout,
                    local: accepted.local,
                    shutdown: accepted.shutdown,
                };
                connection.serve(accepted.io).await;
            }
        };
        let listener = ProtocolListener::start(
            "Redis",
            listener,
            options.runtimes,
            options.connections_max,
            TOO_MANY_CONNECTIONS,
            serve,
        )?;
        Ok(RedisServer { listener, shared })
    }

    /// Returns the address on which the server listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Stops accepting, lets connections answer the requests that they have received, and closes
    /// them.
    pub async fn shutdown(&self) {
        self.shared.begin_shutdown();
        self.listener.shutdown().await;
    }
}
