//! Signals that stop a server.

use std::fs;
use std::future::pending;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT, SIGTERM or SIGHUP. There is nothing to reload, so SIGHUP stops the server in
/// order too, unless the process was started with SIGHUP ignored. After that SIGINT or SIGTERM
/// ends the process at once.
///
/// # Errors
/// The signal handlers cannot be installed.
pub(crate) async fn wait_for_shutdown_signal() -> io::Result<()> {
    // A handler would replace what `nohup` has set.
    let mut hangup = match is_ignored(SignalKind::hangup()) {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let hung_up = async {
        match &mut hangup {
            Some(hangup) => hangup.recv().await,
            None => pending().await,
        }
    };
    let signal = tokio::select! {
        _ = interrupt.recv() => "SIGINT",
        _ = terminate.recv() => "SIGTERM",
        _ = hung_up => "SIGHUP",
    };
    tracing::info!(
        signal,
        "stopping: calls in progress end first; another SIGINT or SIGTERM ends the process at once"
    );
    // A shell, and systemd with SendSIGHUP, send SIGHUP next to another signal: it ends no
    // handover.
    tokio::spawn(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        // Safe at any moment: answered calls are durable, all others are fenced.
        std::process::exit(1);
    });
    Ok(())
}

/// Returns whether this process ignores a signal; false where proc(5) does not say it.
fn is_ignored(kind: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (kind.as_raw_value() - 1)) != 0)
}
