//! The warnings of a server that runs with `--insecure`.

use std::time::Duration;

use tokio::time::interval;

const WARNING_INTERVAL: Duration = Duration::from_secs(3_600);

/// Logs a warning now and every hour, until the runtime ends.
pub(crate) fn start_insecure_warnings() {
    tokio::spawn(async {
        let mut due = interval(WARNING_INTERVAL);
        loop {
            due.tick().await;
            tracing::warn!(
                "this server runs with --insecure: any program that reaches it may do everything; use it in labs only"
            );
        }
    });
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Log in memory.
    #[derive(Clone, Default)]
    struct LogBuffer(Arc<Mutex<Vec<u8>>>);

    impl Write for LogBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn insecure_server_warns_at_start_and_every_hour() {
        let log = LogBuffer::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone());
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let warnings = || {
            let bytes = log.0.lock().unwrap().clone();
            let text = String::from_utf8(bytes).unwrap();
            text.lines()
                .filter(|line| line.contains("WARN") && line.contains("--insecure"))
                .count()
        };
        start_insecure_warnings();
        tokio::time::sleep(Duration::from_secs(3_599)).await;
        assert_eq!(warnings(), 1);
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!(warnings(), 2);
    }
}
