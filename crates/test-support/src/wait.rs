//! Waits for conditions, never for fixed times.

use std::time::{Duration, Instant};

/// Timeout of most conditions.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(40);
/// Interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Calls `poll` until it returns a value. Panics with `what` after `timeout`.
pub async fn wait_until<T>(
    what: &str,
    timeout: Duration,
    mut poll: impl AsyncFnMut() -> Option<T>,
) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = poll().await {
            return value;
        }
        assert!(
            started.elapsed() < timeout,
            "not within {timeout:?}: {what}"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
