//! The runtime of the slow path: its threads have a lower priority than the others (see
//! `seqsvr_alloc`'s `background_executor`).

use std::io;

use seqsvr_alloc::AllocEnvironment;
use tokio::runtime::{Builder, Runtime};

use crate::server::runtime::EVENT_INTERVAL;

/// Niceness that is added to background threads. They get a tenth of the share of other threads
/// when both are ready to run.
#[cfg(target_os = "linux")]
const ADDED_NICENESS: i32 = 10;

/// Runtime of calls that cannot be answered from memory. Dropping this shuts it down.
pub(crate) struct BackgroundRuntime(Option<Runtime>);

impl BackgroundRuntime {
    /// Starts one thread for each core.
    pub(crate) fn start() -> io::Result<BackgroundRuntime> {
        let runtime = Builder::new_multi_thread()
            .thread_name("background")
            .event_interval(EVENT_INTERVAL)
            .on_thread_start(|| {
                // On other systems it would change the whole process. If the call fails, the
                // threads keep the usual priority.
                #[cfg(target_os = "linux")]
                let _ = rustix::process::nice(ADDED_NICENESS);
            })
            .enable_all()
            .build()?;
        Ok(BackgroundRuntime(Some(runtime)))
    }

    /// Returns the environment of an AllocSvr whose slow path runs on these threads.
    pub(crate) fn environment(&self) -> AllocEnvironment {
        AllocEnvironment {
            background: self.0.as_ref().map(|runtime| runtime.handle().clone()),
            ..AllocEnvironment::system()
        }
    }
}

impl Drop for BackgroundRuntime {
    fn drop(&mut self) {
        // This runs inside another runtime, which must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
