//! The runtimes that serve connections: all doors of a process share them, so that no runtime gets
//! the connections of every door.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// Runtimes, and how many connections each serves.
#[derive(Clone, Debug)]
pub struct Runtimes(Arc<[One]>);

#[derive(Debug)]
struct One {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A connection, counted.
struct Counted(Arc<AtomicUsize>);

impl Runtimes {
    /// Creates a set of these runtimes; there must be at least one.
    pub fn new(runtimes: impl IntoIterator<Item = Handle>) -> Runtimes {
        let one = |runtime| One {
            runtime,
            connections: Arc::default(),
        };
        Runtimes(runtimes.into_iter().map(one).collect())
    }

    /// Serves a connection in the runtime that has the fewest.
    pub(crate) fn spawn(
        &self,
        tasks: &TaskTracker,
        serving: impl Future<Output = ()> + Send + 'static,
    ) {
        let least = self
            .0
            .iter()
            .min_by_key(|one| one.connections.load(Relaxed));
        let Some(one) = least else {
            return;
        };
        let counted = Counted::of(one.connections.clone());
        let served = async move {
            serving.await;
            drop(counted);
        };
        tasks.spawn_on(served, &one.runtime);
    }
}

impl Counted {
    fn of(connections: Arc<AtomicUsize>) -> Counted {
        connections.fetch_add(1, Relaxed);
        Counted(connections)
    }
}

impl Drop for Counted {
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
    async fn connections_are_dealt_out_to_where_the_fewest_are() {
        let (running, stopped) = watch::channel(());
        let runtimes = [0, 1].map(|_| {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().unwrap();
            let (handle, mut stopped) = (runtime.handle().clone(), stopped.clone());
            thread::spawn(move || runtime.block_on(stopped.changed()));
            handle
        });
        let (runtimes, tasks) = (Runtimes::new(runtimes), TaskTracker::new());
        let (serves, mut served) = mpsc::unbounded_channel();
        // Each connection reports its thread, and ends, well or badly, when the test ends it.
        let mut connect = async || {
            let (end, ended) = oneshot::channel::<bool>();
            let serves = serves.clone();
            runtimes.spawn(&tasks, async move {
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
        let left = &runtimes.0[1].connections;
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
