//! The Redis protocol, RESP2 and RESP3: the part of it that counters need.
//!
//! ```text
//! mod          the door: accepts connections, within their bound; stops
//! connection   bytes in, bytes out
//!  ├─ request  bytes ──> words            command  words ──> one command
//!  ├─ go       what of a pipeline runs together, in which order (plan), under which key (place)
//!  │   └─ asked     as batches of the service's calls; refusal  its errors
//!  ├─ session  commands that need no number: HELLO, AUTH, CLIENT, INFO, …
//!  └─ reply    answers ──> bytes
//! ```

mod about;
mod asked;
mod command;
mod connection;
#[cfg(fuzzing)]
pub(crate) mod fuzz;
mod go;
mod place;
mod plan;
mod refusal;
mod reply;
mod request;
mod session;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::LocalSequence;
use seqsvr_proto::limits::ITEMS_MAX;
use seqsvr_proto::transport::{Share, Transport};

use about::About;
use connection::Service;
use go::GO_MAX;

use crate::door::{Accepted, Door};
use crate::runtimes::Runtimes;

/// Default port of the Redis protocol.
pub const REDIS_PORT: u16 = 6380;
/// Most connections at a time, unless configured: as many as Redis accepts.
pub const REDIS_CONNECTIONS_DEFAULT: usize = 10_000;
/// The answer to one connection too many.
const FULL: &[u8] = b"-ERR max number of clients reached (--redis-connections-max)
";

/// Settings of the door.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// Address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where connections are served; None: in the runtime in which the door is opened.
    pub runtimes: Option<Runtimes>,
    /// Most connections at a time; the door rejects more.
    pub connections_max: usize,
    /// Password that AUTH must give before anything else is answered; None: no password.
    pub password: Option<String>,
    /// Time without a command after which a connection is closed; None: no limit.
    pub idle_max: Option<Duration>,
    /// Most items of one batch that the service takes.
    pub items_max: usize,
}

/// An open door.
pub struct RedisDoor {
    door: Door,
    about: Arc<About>,
}

impl RedisOptions {
    /// Returns the defaults for everything except the address.
    pub fn new(listen: SocketAddr) -> RedisOptions {
        RedisOptions {
            listen,
            runtimes: None,
            connections_max: REDIS_CONNECTIONS_DEFAULT,
            password: None,
            idle_max: None,
            items_max: ITEMS_MAX,
        }
    }
}

impl RedisDoor {
    /// Listens on the address and serves `sequence` there.
    ///
    /// # Errors
    /// The door cannot listen on the address.
    pub async fn open(
        options: RedisOptions,
        transport: &dyn Transport,
        sequence: impl LocalSequence,
    ) -> io::Result<RedisDoor> {
        let listener = transport.listen(options.listen).await?;
        let about = Arc::new(About::new(options.password));
        let items_max = options.items_max.min(GO_MAX);
        let idle_max = options.idle_max;
        let sequence = Arc::new(sequence);
        let served = about.clone();
        let serve = move |accepted: Accepted| {
            let (sequence, about) = (sequence.clone(), served.clone());
            async move {
                let service = Service {
                    sequence: &*sequence,
                    about: &about,
                    items_max,
                    idle_max,
                    stopping: accepted.stopping,
                };
                service
                    .serve(accepted.io, Share::new(accepted.remote))
                    .await;
            }
        };
        let (runtimes, most) = (options.runtimes, options.connections_max);
        let door = Door::open("Redis", listener, runtimes, most, FULL, serve)?;
        Ok(RedisDoor { door, about })
    }

    /// Returns the address on which it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.door.local_addr()
    }

    /// Accepts no more, lets connections answer what they have received, and closes them.
    pub async fn shutdown(&self) {
        self.about.stop();
        self.door.shutdown().await;
    }
}
