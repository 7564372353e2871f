//! The price and the trace of a wrong token.
//!
//! Invariant: a wrong secret is answered after [`WRONG_SECRET_DELAY`], and is in the count of one
//! log line. Schedule that breaks it: one connection tries 100,000 tokens a second, and the log
//! has no line. A flood must not fill the log either: a line is written at most once in
//! [`LOG_INTERVAL`], with the count since the line before.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

/// Time until a wrong token is answered.
pub(crate) const WRONG_SECRET_DELAY: Duration = Duration::from_secs(1);
/// Minimum time between two lines of one log of wrong secrets.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Counts the wrong values of one secret, and logs their number.
pub(crate) struct WrongSecretLog(Arc<Mutex<UnloggedSecrets>>);

/// Wrong secrets since the last line.
struct UnloggedSecrets {
    /// Name of the secret, for the log.
    secret: &'static str,
    count: u64,
    last_remote: Option<SocketAddr>,
    /// A task logs the count at the end of the interval.
    has_timer: bool,
}

impl WrongSecretLog {
    /// Creates the log of the secret with this name.
    pub(crate) fn new(secret: &'static str) -> WrongSecretLog {
        WrongSecretLog(Arc::new(Mutex::new(UnloggedSecrets {
            secret,
            count: 0,
            last_remote: None,
            has_timer: false,
        })))
    }

    /// Counts a wrong secret. Logs it now, or at the end of the interval that the last line began.
    /// Must be called inside a tokio runtime.
    pub(crate) fn note(&self, remote: Option<SocketAddr>) {
        let mut unlogged = self.0.lock();
        unlogged.count += 1;
        unlogged.last_remote = remote;
        if std::mem::replace(&mut unlogged.has_timer, true) {
            return;
        }
        unlogged.log_count();
        drop(unlogged);
        let unlogged = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            loop {
                sleep(LOG_INTERVAL).await;
                let Some(unlogged) = unlogged.upgrade() else {
                    return;
                };
                let mut unlogged = unlogged.lock();
                unlogged.has_timer = unlogged.log_count();
                if !unlogged.has_timer {
                    return;
                }
            }
        });
    }
}

impl Drop for WrongSecretLog {
    fn drop(&mut self) {
        self.0.lock().log_count();
    }
}

impl UnloggedSecrets {
    /// Logs the count, and begins the next one. False: there is nothing to log.
    fn log_count(&mut self) -> bool {
        let count = std::mem::take(&mut self.count);
        if count > 0 {
            tracing::warn!(
                secret = self.secret,
                count,
                last_remote = self.last_remote.map(tracing::field::display),
                "callers sent wrong tokens; one line a minute has their count"
            );
        }
        count > 0
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;

    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl LogBuffer {
        fn lines(&self) -> Vec<String> {
            let bytes = self.0.lock().clone();
            let text = String::from_utf8(bytes).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Sends wrong secrets in several bursts. The first one is logged at once, and all are counted.
    #[tokio::test(start_paused = true)]
    async fn wrong_secrets_are_logged_once_a_minute_with_their_count() {
        let buffer = LogBuffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let log = WrongSecretLog::new("test secret");
        let remote = |port| Some(SocketAddr::from(([127, 0, 0, 1], port)));
        let assert_line = |index: usize, count: u64, port: u16| {
            let lines = buffer.lines();
            assert_eq!(lines.len(), index + 1, "{lines:?}");
            let expected =
                format!("secret=\"test secret\" count={count} last_remote=127.0.0.1:{port}");
            let line = &lines[index];
            assert!(line.contains("WARN") && line.ends_with(&expected), "{line}");
        };
        log.note(remote(1));
        assert_line(0, 1, 1);
        for port in 2..=1_001 {
            log.note(remote(port));
        }
        sleep(LOG_INTERVAL - Duration::from_secs(1)).await;
        assert_line(0, 1, 1);
        sleep(Duration::from_secs(2)).await;
        assert_line(1, 1_000, 1_001);
        log.note(remote(5));
        sleep(LOG_INTERVAL).await;
        assert_line(2, 1, 5);
        // Quiet for a minute; the next one is logged at once, and the last one at the end.
        sleep(2 * LOG_INTERVAL).await;
        log.note(remote(6));
        assert_line(3, 1, 6);
        log.note(remote(7));
        assert_line(3, 1, 6);
        drop(log);
        assert_line(4, 1, 7);
    }
}
