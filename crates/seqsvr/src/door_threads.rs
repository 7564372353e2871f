//! Threads of the doors: each serves connections of its own.
//!
//! On threads that share their tasks, one that has found several connections with something to do rings for
//! another, which costs both of them more than a command does.

use std::io;
use std::num::NonZero;

use seqsvr_gateway::Runtimes;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// A runtime for each core. They end with this.
pub(crate) struct DoorThreads {
    runtimes: Runtimes,
    /// Dropped, it ends them.
    _running: watch::Sender<()>,
}

impl DoorThreads {
    /// Starts them.
    pub(crate) fn start() -> io::Result<DoorThreads> {
        let (running, stopped) = watch::channel(());
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut runtimes = Vec::with_capacity(cores);
        for _ in 0..cores {
            // Looked for more arrivals as seldom as tokio does by itself: what has come to many connections is done
            // before the first of their answers is sent.
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtimes.push(runtime.handle().clone());
            let mut stopped = stopped.clone();
            std::thread::Builder::new()
                .name("door".into())
                .spawn(move || runtime.block_on(stopped.changed()))?;
        }
        Ok(DoorThreads {
            runtimes: Runtimes::new(runtimes),
            _running: running,
        })
    }

    /// Where connections may be served.
    pub(crate) fn runtimes(&self) -> Option<Runtimes> {
        Some(self.runtimes.clone())
    }
}
