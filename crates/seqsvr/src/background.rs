//! Threads for what calls have to wait for, below the others in priority (see `seqsvr_alloc`'s
//! `background`).

use std::io;

use seqsvr_alloc::Environment;
use tokio::runtime::{Builder, Runtime};

use crate::EVENT_INTERVAL;

/// How far below the others: a tenth of their share when both want the processor.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// The runtime of calls that memory cannot answer at once. It ends with this.
pub(crate) struct Background(Option<Runtime>);

impl Background {
    /// Starts its threads, as many as there are cores.
    pub(crate) fn start() -> io::Result<Background> {
        let runtime = Builder::new_multi_thread()
            .thread_name("background")
            .event_interval(EVENT_INTERVAL)
            .on_thread_start(|| {
                // Elsewhere it would change the whole process. If it is refused all are alike.
                #[cfg(target_os = "linux")]
                let _ = rustix::process::nice(NICE);
            })
            .enable_all()
            .build()?;
        Ok(Background(Some(runtime)))
    }

    /// This machine with these threads.
    pub(crate) fn environment(&self) -> Environment {
        Environment {
            background: self.0.as_ref().map(|runtime| runtime.handle().clone()),
            ..Environment::system()
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It ends within another runtime, where it may not be waited for.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
