//! Signals that stop a server.

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT or SIGTERM. A second signal ends the process at once.
///
/// # Errors
/// The signal handlers cannot be installed.
pub(crate) async fn wait_for_shutdown_signal() -> std::io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut wait_for_either = async move || {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    };
    wait_for_either().await;
    tokio::spawn(async move {
        wait_for_either().await;
        // Safe at any moment: answered calls are durable, all others are fenced.
        std::process::exit(1);
    });
    Ok(())
}
