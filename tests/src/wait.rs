//! Waits for conditions, never for fixed times.

use std::time::{Duration, Instant};

/// Interval between two checks of a condition.
const POLL: Duration = Duration::from_millis(20);

/// Polls `ask` until it returns a value. Panics with `what` after `within`.
pub async fn until<T>(what: &str, within: Duration, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = ask().await {
            return found;
        }
        assert!(
            started.elapsed() < within,
            "waited {within:?} in vain for: {what}"
        );
        tokio::time::sleep(POLL).await;
    }
}
