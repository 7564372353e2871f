//! What all doors have in common: they accept connections within a bound, deal them out to threads, and close
//! in order.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use seqsvr_proto::transport::{Connections, Io, Listener};
use tokio::runtime::Handle;
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
    /// Serves at most `connections_max` connections at a time, each in one of the runtimes, or if there is none in
    /// that in which this is called; more are told `refusal` in their protocol.
    pub(crate) fn open<F>(
        name: &'static str,
        mut listener: Box<dyn Listener>,
        runtimes: &[Handle],
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
            runtimes: match runtimes {
                [] => vec![Served::on(Handle::current())],
                all => all.iter().cloned().map(Served::on).collect(),
            },
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

/// What accepts.
struct Accepting {
    connections: Arc<Connections>,
    refusal: &'static [u8],
    runtimes: Vec<Served>,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

/// A runtime, and how many connections are served there.
struct Served {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Served {
    fn on(runtime: Handle) -> Served {
        Served {
            runtime,
            connections: Arc::default(),
        }
    }
}

/// A connection, counted.
struct One(Arc<AtomicUsize>);

impl One {
    fn of(connections: Arc<AtomicUsize>) -> One {
        connections.fetch_add(1, Relaxed);
        One(connections)
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
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
            self.spawn(async move {
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

    /// Where the fewest are served.
    fn spawn(&self, serving: impl Future<Output = ()> + Send + 'static) {
        let least = self
            .runtimes
            .iter()
            .min_by_key(|r| r.connections.load(Relaxed));
        let Some(Served {
            runtime,
            connections,
        }) = least
        else {
            return;
        };
        let one = One::of(connections.clone());
        let served = async move {
            serving.await;
            drop(one);
        };
        self.tasks.spawn_on(served, runtime);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::{mpsc, oneshot, watch};
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn connections_are_dealt_out_to_where_the_fewest_are() {
        let (running, stopped) = watch::channel(());
        let runtimes = [0, 1].map(|_| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().unwrap();
            let (handle, mut stopped) = (runtime.handle().clone(), stopped.clone());
            thread::spawn(move || runtime.block_on(stopped.changed()));
            Served::on(handle)
        });
        let accepting = Accepting {
            connections: Connections::new(10),
            refusal: b"",
            runtimes: runtimes.into(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        let (serves, mut served) = mpsc::unbounded_channel();
        // Each tells its thread, and ends, well or badly, when it is told to.
        let mut connect = async || {
            let (end, ended) = oneshot::channel::<bool>();
            let serves = serves.clone();
            accepting.spawn(async move {
                serves.send(thread::current().id()).unwrap();
                assert!(ended.await.unwrap_or(true), "this one fails");
            });
            (served.recv().await.unwrap(), end)
        };
        let (first, _first) = connect().await;
        let (second, well) = connect().await;
        assert_ne!(first, second);
        let (third, _third) = connect().await;
        let (fourth, badly) = connect().await;
        assert_eq!((third, fourth), (first, second));
        well.send(true).unwrap();
        badly.send(false).unwrap();
        let left = &accepting.runtimes[1].connections;
        let gone = async {
            while left.load(Relaxed) > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(10), gone).await.unwrap();
        assert_eq!(connect().await.0, second);
        drop(running);
    }
}
