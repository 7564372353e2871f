//! Keeps a log line from repeating with every call.

use std::time::Duration;

use tokio::time::Instant;

/// Interval of a log line that would repeat with every call.
const LOG_THROTTLE_INTERVAL: Duration = Duration::from_secs(10);

/// Limiter that lets a log line through once in [`LOG_THROTTLE_INTERVAL`].
#[derive(Default)]
pub(crate) struct LogThrottle(parking_lot::Mutex<Option<Instant>>);

impl LogThrottle {
    pub(crate) fn allow(&self) -> bool {
        let mut last = self.0.lock();
        let now = Instant::now();
        let allowed = last.is_none_or(|at| now - at >= LOG_THROTTLE_INTERVAL);
        if allowed {
            *last = Some(now);
        }
        allowed
    }
}
