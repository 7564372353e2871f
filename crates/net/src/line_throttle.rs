//! Bound of log lines about events that strangers cause at will.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// Minimum time between two lines of one log.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Decides which events of a log get a line: at most one in [`LOG_INTERVAL`], so that a flood does
/// not fill it.
#[derive(Debug, Default)]
pub(crate) struct LineThrottle(Mutex<UnloggedEvents>);

#[derive(Debug, Default)]
struct UnloggedEvents {
    count: u64,
    last_line: Option<Instant>,
}

impl LineThrottle {
    /// Counts an event. Returns the events since the last line, this one included, if it gets a
    /// line.
    pub(crate) fn count_event(&self) -> Option<u64> {
        let mut unlogged = self.0.lock();
        unlogged.count += 1;
        let now = Instant::now();
        let is_due = unlogged
            .last_line
            .is_none_or(|last| now - last >= LOG_INTERVAL);
        is_due.then(|| {
            unlogged.last_line = Some(now);
            std::mem::take(&mut unlogged.count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn flood_of_events_gets_a_line_in_each_interval() {
        let throttle = LineThrottle::default();
        assert_eq!(throttle.count_event(), Some(1));
        for _ in 0..1_000 {
            assert_eq!(throttle.count_event(), None);
        }
        tokio::time::advance(LOG_INTERVAL).await;
        assert_eq!(throttle.count_event(), Some(1_001));
        assert_eq!(throttle.count_event(), None);
    }
}
