//! The limit of file descriptors: every connection needs one, and the usual limit of 1,024 is too
//! low for a server.

use std::num::NonZero;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are reserved for files of the store, connections to other servers, and the
/// runtime.
const OTHERS: u64 = 512;
/// Descriptors of one thread that serves connections.
const OF_A_THREAD: u64 = 4;

/// Raises this process's limit so that `connections` fit, at most to the hard limit. Logs a
/// warning if they do not fit.
pub(crate) fn allow(connections: u64) {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let others = OTHERS + OF_A_THREAD * threads as u64;
    let wanted = connections.saturating_add(others);
    let now = getrlimit(Resource::Nofile);
    let Some(current) = now.current.filter(|current| *current < wanted) else {
        return;
    };
    let raised = now.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let limit = Rlimit {
        current: Some(raised),
        maximum: now.maximum,
    };
    let got = match setrlimit(Resource::Nofile, limit) {
        Ok(()) => raised,
        Err(_) => current,
    };
    if got < wanted {
        tracing::warn!(
            "{connections} connections need {wanted} file descriptors and this process may open {got}: raise `ulimit -n` or lower --connections-max"
        );
    }
}
