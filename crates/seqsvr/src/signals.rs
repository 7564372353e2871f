//! Waiting for the wish to stop.

use tokio::signal::unix::{SignalKind, signal};

/// Returns at SIGINT or SIGTERM; a second one ends the process at once.
pub(crate) async fn stop() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut either = async move || {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    };
    either().await;
    tokio::spawn(async move {
        either().await;
        // Safe at any moment: whatever was answered is durable, whatever was not is fenced.
        std::process::exit(1);
    });
    Ok(())
}
