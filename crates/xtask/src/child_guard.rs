//! A child process that does not outlive its guard.

use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time between two checks of a process.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A child process that is killed when its guard is dropped.
pub(crate) struct ChildGuard(pub(crate) Child);

impl ChildGuard {
    /// Waits until the process ends. Returns None if it has not ended at the deadline.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>, String> {
        loop {
            let status = self.0.try_wait().map_err(|e| e.to_string())?;
            if status.is_some() || Instant::now() >= deadline {
                return Ok(status);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Each of these calls fails only if the process has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
