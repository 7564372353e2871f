//! The limit of file descriptors: every connection needs one, and the usual limit of 1,024 is too
//! low for a server.

use std::num::NonZero;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are reserved for files of the store, connections to other servers, and the
/// runtime.
const RESERVED_FDS: u64 = 512;
/// Descriptors of one thread that serves connections.
const FDS_PER_THREAD: u64 = 4;

/// Raises this process's limit so that `connections` fit, at most to the hard limit. Logs a
/// warning if they do not fit.
pub(crate) fn raise_fd_limit(connections: u64) {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let reserved = RESERVED_FDS + FDS_PER_THREAD * threads as u64;
    let wanted = connections.saturating_add(reserved);
    let limits = getrlimit(Resource::Nofile);
    let Some(current) = limits.current.filter(|current| *current < wanted) else {
        return;
    };
    let raised = limits.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised_limit = Rlimit {
        current: Some(raised),
        maximum: limits.maximum,
    };
    let available = match setrlimit(Resource::Nofile, raised_limit) {
        Ok(()) => raised,
        Err(_) => current,
    };
    if available < wanted {
        tracing::warn!(
            connections,
            needed = wanted,
            available,
            "too few file descriptors for all connections; raise `ulimit -n` or lower --connections-max"
        );
    }
}
