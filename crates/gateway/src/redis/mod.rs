//! The Redis protocol, RESP2 and RESP3, as much of it as counters need.
//!
//! ```text
//! mod          the door: accepts connections, within their bound; stops
//! connection   bytes in, bytes out
//!  ├─ request  bytes ──> words            command  words ──> what is asked for
//!  ├─ go       what of a pipeline is done together, in which order (plan), under which key (place)
//!  │   └─ asked     as batches of the service's calls; refusal  its errors
//!  ├─ session  commands that need no number: HELLO, AUTH, CLIENT, INFO, …
//!  └─ reply    answers ──> bytes
//! ```

mod about;
mod asked;
mod command;
mod connection;
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

use seqsvr_proto::limits::ITEMS_MAX;
use seqsvr_proto::transport::{Connections, Listener, Share, Transport};
use seqsvr_proto::v1::sequence_server::Sequence;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use about::About;
use connection::Service;
use go::GO_MAX;

/// Default port of the Redis protocol.
pub const REDIS_PORT: u16 = 6380;
/// Most connections at a time, unless configured: as many as Redis takes.
pub const REDIS_CONNECTIONS_DEFAULT: usize = 10_000;
/// Pause after a failed accept (no file descriptor left), instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long connections have to end at a stop.
const DRAIN_MAX: Duration = Duration::from_secs(6);

/// How the door is set up.
#[derive(Clone, Debug)]
pub struct RedisOptions {
    /// Where to listen; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Most connections at a time; more are refused.
    pub connections_max: usize,
    /// What AUTH must say before anything else is answered; None: nothing.
    pub password: Option<String>,
    /// A connection is closed after so long without a command; None: never.
    pub idle_max: Option<Duration>,
    /// Most items of one batch that the service takes.
    pub items_max: usize,
}

/// An open door.
pub struct RedisDoor {
    local_addr: SocketAddr,
    about: Arc<About>,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl RedisOptions {
    /// Defaults for everything but the address.
    pub fn new(listen: SocketAddr) -> RedisOptions {
        RedisOptions {
            listen,
            connections_max: REDIS_CONNECTIONS_DEFAULT,
            password: None,
            idle_max: None,
            items_max: ITEMS_MAX,
        }
    }
}

impl RedisDoor {
    /// Listens and serves `sequence` there.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn open(
        options: RedisOptions,
        transport: &dyn Transport,
        sequence: impl Sequence,
    ) -> io::Result<RedisDoor> {
        let listener = transport.listen(options.listen).await?;
        let door = RedisDoor {
            local_addr: listener.local_addr()?,
            about: Arc::new(About::new(options.password.clone())),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let accepting = Accepting {
            listener,
            connections: Connections::new(options.connections_max),
            about: door.about.clone(),
            options,
            sequence: Arc::new(sequence),
            tasks: door.tasks.clone(),
            stopping: door.stopping.clone(),
        };
        door.tasks.spawn(accepting.run());
        Ok(door)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Accepts no more, lets connections answer what they have received, and closes them.
    pub async fn shutdown(&self) {
        self.about.stop();
        self.stopping.cancel();
        self.tasks.close();
        let ended = tokio::time::timeout(DRAIN_MAX, self.tasks.wait()).await;
        if ended.is_err() {
            tracing::warn!("Redis connections are still open after {DRAIN_MAX:?}; not waited for");
        }
    }
}

struct Accepting<S> {
    listener: Box<dyn Listener>,
    connections: Arc<Connections>,
    about: Arc<About>,
    options: RedisOptions,
    sequence: Arc<S>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl<S: Sequence> Accepting<S> {
    async fn run(mut self) {
        let stopping = self.stopping.clone();
        stopping.run_until_cancelled(self.accept()).await;
    }

    async fn accept(&mut self) {
        loop {
            let (io, remote) = match self.listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(permit) = self.connections.admit() else {
                let why = b"-ERR max number of clients reached (--redis-connections-max)\r\n";
                self.connections.refuse(io, why.to_vec());
                continue;
            };
            let (sequence, about) = (self.sequence.clone(), self.about.clone());
            let stopping = self.stopping.child_token();
            let items_max = self.options.items_max.min(GO_MAX);
            let idle_max = self.options.idle_max;
            self.tasks.spawn(async move {
                let service = Service {
                    sequence: &*sequence,
                    about: &about,
                    items_max,
                    idle_max,
                    stopping,
                };
                service.serve(io, Share::new(remote)).await;
                drop(permit);
            });
        }
    }
}
