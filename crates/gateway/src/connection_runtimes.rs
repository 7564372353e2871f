//! The runtimes that serve connections. All endpoints of a process share them, so that connections
//! are balanced across endpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Runtimes, with the number of connections that each serves.
#[derive(Clone, Debug)]
pub struct ConnectionRuntimes(Arc<[RuntimeSlot]>);

/// One runtime, and the number of its connections.
#[derive(Debug)]
struct RuntimeSlot {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A count of one connection, released at its drop.
struct ConnectionCount(Arc<AtomicUsize>);

impl ConnectionRuntimes {
    /// Creates a set of these runtimes; there must be at least one.
    pub fn new(runtimes: impl IntoIterator<Item = Handle>) -> ConnectionRuntimes {
        let slot = |runtime| RuntimeSlot {
            runtime,
            connections: Arc::default(),
        };
        ConnectionRuntimes(runtimes.into_iter().map(slot).collect())
    }

    /// Serves a connection in the runtime that has the fewest connections.
    pub(crate) fn spawn_connection(
        &self,
        tasks: &TaskTracker,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        let least_loaded = self
            .0
            .iter()
            .min_by_key(|slot| slot.connections.load(Relaxed));
        let Some(slot) = least_loaded else {
            return;
        };
        slot.connections.fetch_add(1, Relaxed);
        let count = ConnectionCount(slot.connections.clone());
        let served = async move {
            connection.await;
            drop(count);
        };
        tasks.spawn_on(served, &slot.runtime);
    }
}

impl Drop for ConnectionCount {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use tokio::sync::{mpsc, oneshot, watch};
    use tokio::time::{sleep, timeout};

    use super::*;

    #[tokio::test]
    async fn connection_is_spawned_in_the_least_loaded_runtime() {
        let (running, stopped) = watch::channel(());
        let runtimes = [0, 1].map(|_| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().unwrap();
            let (handle, mut stopped) = (runtime.handle().clone(), stopped.clone());
            thread::spawn(move || runtime.block_on(stopped.changed()));
            handle
        });
        let (runtimes, tasks) = (ConnectionRuntimes::new(runtimes), TaskTracker::new());
        let (serves, mut served) = mpsc::unbounded_channel();
        // Each connection reports its thread. The test ends it, with success or with a panic.
        let mut connect = async || {
            let (end, ended) = oneshot::channel::<bool>();
            let serves = serves.clone();
            runtimes.spawn_connection(&tasks, async move {
                serves.send(thread::current().id()).unwrap();
                assert!(
                    ended.await.unwrap_or(true),
                    "the test makes this connection fail"
                );
            });
            (served.recv().await.unwrap(), end)
        };
        let (first, _first) = connect().await;
        let (second, end_well) = connect().await;
        assert_ne!(first, second);
        let (third, _third) = connect().await;
        let (fourth, end_in_panic) = connect().await;
        assert_eq!((third, fourth), (first, second));
        end_well.send(true).unwrap();
        end_in_panic.send(false).unwrap();
        let remaining = &runtimes.0[1].connections;
        let all_ended = async {
            while remaining.load(Relaxed) > 0 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(10), all_ended).await.unwrap();
        assert_eq!(connect().await.0, second);
        drop(running);
    }
}
