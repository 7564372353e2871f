//! The common part of all doors: they accept connections within a bound, spread them over threads,
//! and close in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::transport::{Connections, Io, Listener};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::runtimes::Runtimes;

/// Pause after a failed accept (no file descriptor left), instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long connections have to end at a shutdown.
const DRAIN_MAX: Duration = Duration::from_secs(6);

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) io: Box<dyn Io>,
    pub(crate) remote: SocketAddr,
    /// Canceled when the connection must answer what it has received, and end.
    pub(crate) stopping: CancellationToken,
}

/// An open door.
pub(crate) struct Door {
    /// Name of the protocol, for logs.
    name: &'static str,
    local_addr: SocketAddr,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Door {
    /// Serves at most `connections_max` connections at a time in one of the runtimes, or in the
    /// current one if none is given. The door rejects more with `refusal`, in their protocol.
    pub(crate) fn open<F>(
        name: &'static str,
        mut listener: Box<dyn Listener>,
        runtimes: Option<Runtimes>,
        connections_max: usize,
        refusal: &'static [u8],
        serve: impl Fn(Accepted) -> F + Send + Sync + 'static,
    ) -> io::Result<Door>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let door = Door {
            name,
            local_addr: listener.local_addr()?,
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let accepting = Accepting {
            connections: Connections::new(connections_max),
            refusal,
            runtimes: runtimes.unwrap_or_else(|| Runtimes::new([Handle::current()])),
            stopping: door.stopping.clone(),
            tasks: door.tasks.clone(),
        };
        let stopping = door.stopping.clone();
        door.tasks.spawn(async move {
            let accept = accepting.run(&mut *listener, Arc::new(serve));
            stopping.run_until_cancelled(accept).await;
        });
        Ok(door)
    }

    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Accepts no more, lets connections answer what they have received, and closes them.
    pub(crate) async fn shutdown(&self) {
        self.stopping.cancel();
        self.tasks.close();
        let ended = tokio::time::timeout(DRAIN_MAX, self.tasks.wait()).await;
        if ended.is_err() {
            let name = self.name;
            tracing::warn!("{name} connections are still open after {DRAIN_MAX:?}; not waited for");
        }
    }
}

/// The task that accepts connections.
struct Accepting {
    connections: Arc<Connections>,
    refusal: &'static [u8],
    runtimes: Runtimes,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Accepting {
    async fn run<F: Future<Output = ()> + Send + 'static>(
        &self,
        listener: &mut dyn Listener,
        serve: Arc<impl Fn(Accepted) -> F + Send + Sync + 'static>,
    ) {
        loop {
            let (open, remote) = match listener.accept_for_any().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!("a connection was not accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Some(permit) = self.connections.admit() else {
                if let Ok(io) = open() {
                    self.connections.refuse(io, self.refusal.to_vec());
                }
                continue;
            };
            let (serve, stopping) = (serve.clone(), self.stopping.child_token());
            self.runtimes.spawn(&self.tasks, async move {
                match open() {
                    Ok(io) => {
                        let accepted = Accepted {
                            io,
                            remote,
                            stopping,
                        };
                        serve(accepted).await;
                    }
                    Err(error) => tracing::warn!(%remote, "a connection was not opened: {error}"),
                }
                drop(permit);
            });
        }
    }
}
