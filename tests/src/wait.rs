//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const POLL: Duration = Duration::from_millis(20);

/// Asks until there is an answer. Panics, saying what was awaited, when `within` has passed.
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
