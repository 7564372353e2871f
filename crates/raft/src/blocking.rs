//! Blocking work in async code.

use std::io;

use crate::error::Error;

/// Runs blocking work, away from the runtime.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> io::Result<T> {
    let done = seqsvr_os::spawn_blocking(work).await;
    done.map_err(io::Error::other)?.map_err(io::Error::from)
}
