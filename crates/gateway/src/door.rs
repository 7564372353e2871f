//! What all doors have in common: they accept connections within a bound, and close in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::transport::{Connections, Io, Listener};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Pause after a failed accept (no file descriptor left), instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long connections have to end at a stop.
const DRAIN_MAX: Duration = Duration::from_secs(6);

/// A connection that was accepted.
pub(crate) struct Accepted {
    pub(crate) io: Box<dyn Io>,
    pub(crate) remote: SocketAddr,
    /// Cancelled when the connection is to answer what it has received, and end.
    pub(crate) stopping: CancellationToken,
}

/// An open door.
pub(crate) struct Door {
    /// Whom it is for.
    name: &'static str,
    local_addr: SocketAddr,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl Door {
    /// Serves at most `connections_max` connections at a time; more are told `refusal` in their protocol.
    pub(crate) fn open<F>(
        name: &'static str,
        mut listener: Box<dyn Listener>,
        connections_max: usize,
        refusal: &'static [u8],
        serve: impl Fn(Accepted) -> F + Send + 'static,
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
        let connections = Connections::new(connections_max);
        let (stopping, tasks) = (door.stopping.clone(), door.tasks.clone());
        door.tasks.spawn(async move {
            let accept = accept(
                &mut *listener,
                &connections,
                refusal,
                &stopping,
                &tasks,
                serve,
            );
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

async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: &mut dyn Listener,
    connections: &Arc<Connections>,
    refusal: &'static [u8],
    stopping: &CancellationToken,
    tasks: &TaskTracker,
    serve: impl Fn(Accepted) -> F,
) {
    loop {
        let (io, remote) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("a connection was not accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = connections.admit() else {
            connections.refuse(io, refusal.to_vec());
            continue;
        };
        let served = serve(Accepted {
            io,
            remote,
            stopping: stopping.child_token(),
        });
        tasks.spawn(async move {
            served.await;
            drop(permit);
        });
    }
}
