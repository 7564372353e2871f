//! The limit of file descriptors, and limits of connections that fit below it.
//!
//! Invariant: the connections that callers may open leave descriptors for the files of this process
//! and for the connections that it opens itself. Schedule that breaks it: idle clients take every
//! descriptor of a process that may open few. Then a store cannot open the file of its next
//! snapshot, and ends; an AllocSvr cannot connect to its stores after their restart, and loses its
//! slots.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZero;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seqsvr_net::ConnectionLimiter;

use crate::output::exit_code::BadInput;

/// Descriptors beside connections of callers for which a process raises its limit. With fewer, half
/// of all are kept for it: files of a long log, connections to many servers.
const RESERVE_WANTED: u64 = 512;
/// Descriptors that a store needs at least: log, rows, snapshots, connections to other stores.
const STORE_RESERVE_MIN: u64 = 64;
/// Descriptors that an AllocSvr needs at least: connections to stores and other AllocSvrs.
const ALLOC_RESERVE_MIN: u64 = 64;
/// Descriptors of one runtime of tokio.
const RUNTIME_FDS: u64 = 4;
/// Open descriptors of a process at its start, where the system does not show them.
const OPEN_AT_START: u64 = 16;
/// Connections that each endpoint accepts at least, unless its flag says fewer.
const CONNECTIONS_MIN: u64 = 16;

/// Servers and runtimes of a process.
#[derive(Clone, Copy)]
pub(crate) struct ServerParts {
    pub(crate) stores: u64,
    pub(crate) allocs: u64,
    /// Runtimes that are started later.
    pub(crate) runtimes: u64,
}

/// Limit of the connections of an endpoint of `dev` from which no warning is worth its lines.
const DEV_CONNECTIONS_ENOUGH: u64 = 1_000;

/// Limit of the connections of one endpoint.
pub(crate) struct EndpointLimit {
    /// Flag that sets the limit, or what names the endpoint if no flag does.
    pub(crate) name: &'static str,
    pub(crate) connections_max: u64,
}

/// Returns the runtimes that serve Redis and HTTP connections, one for each core.
pub(crate) fn endpoint_runtimes() -> u64 {
    std::thread::available_parallelism().map_or(1, NonZero::get) as u64
}

/// Raises this process's limit of descriptors so that all connections fit, at most to the hard
/// limit. Returns the highest limit of connections that an endpoint may have then: if they do not
/// fit, the highest limits are lowered to it, with one warning.
///
/// # Errors
/// Not even the files and connections that the process itself needs fit.
pub(crate) fn fit_connection_limits(
    parts: ServerParts,
    endpoints: &[EndpointLimit],
) -> Result<u64, BadInput> {
    let limits: Vec<u64> = endpoints.iter().map(|e| e.connections_max).collect();
    let own_min = parts.needed_fds() + open_fds();
    let needed = own_min + needed_by_endpoints(&limits, CONNECTIONS_MIN);
    let wanted = own_min.max(RESERVE_WANTED) + needed_by_endpoints(&limits, u64::MAX);
    let Some(available) = raise_fd_limit(wanted) else {
        return Ok(u64::MAX);
    };
    if available < needed {
        return Err(BadInput(format!(
            "too few file descriptors: this process may open {available}, and needs {needed} for its files, its own connections and {CONNECTIONS_MIN} connections at each endpoint; raise the limit of open files to {needed} or more (`ulimit -n`, LimitNOFILE= of its unit)"
        )));
    }
    let reserve = own_min.max(RESERVE_WANTED.min(available / 2));
    let Some(highest) = highest_limit(&limits, available.saturating_sub(reserve)) else {
        return Ok(u64::MAX);
    };
    let lowered = endpoints.iter().filter(|e| e.connections_max > highest);
    // Enough for development, where no flag sets a limit.
    if parts.stores * parts.allocs > 0 && highest >= DEV_CONNECTIONS_ENOUGH {
        return Ok(highest);
    }
    // In `dev`, several servers have endpoints of one name.
    let lowered: BTreeSet<String> = lowered
        .map(|e| format!("{} {} -> {highest}", e.name, e.connections_max))
        .collect();
    let lowered = Vec::from_iter(lowered).join(", ");
    tracing::warn!(
        lowered,
        available,
        wanted,
        "limits of connections lowered, since this process may open too few files; raise the limit of open files (`ulimit -n`, LimitNOFILE= of its unit)"
    );
    Ok(highest)
}

impl ServerParts {
    /// Returns the descriptors that these parts need at least, beside connections of callers.
    fn needed_fds(self) -> u64 {
        STORE_RESERVE_MIN * self.stores
            + ALLOC_RESERVE_MIN * self.allocs
            + RUNTIME_FDS * self.runtimes
    }
}

/// Returns the open descriptors of this process.
fn open_fds() -> u64 {
    fs::read_dir("/proc/self/fd").map_or(OPEN_AT_START, |open| open.count() as u64)
}

/// Returns the descriptors of all endpoints if none accepts more than `limit` connections.
fn needed_by_endpoints(limits: &[u64], limit: u64) -> u64 {
    // Each has a listener, and accepts a connection before it rejects it.
    let needed = |most: u64| most + ConnectionLimiter::rejections_max(most as usize) as u64 + 2;
    limits.iter().map(|own| needed(limit.min(*own))).sum()
}

/// Returns the highest limit, at least [`CONNECTIONS_MIN`], below which all endpoints fit into
/// `available` descriptors. None: they fit as they are.
fn highest_limit(limits: &[u64], available: u64) -> Option<u64> {
    let highest = limits.iter().copied().max().unwrap_or(0);
    if needed_by_endpoints(limits, highest) <= available {
        return None;
    }
    let (mut fits, mut too_high) = (CONNECTIONS_MIN, highest);
    while fits + 1 < too_high {
        let middle = fits.midpoint(too_high);
        match needed_by_endpoints(limits, middle) <= available {
            true => fits = middle,
            false => too_high = middle,
        }
    }
    Some(fits)
}

/// Raises this process's limit to `wanted` descriptors, at most to the hard limit. Returns the
/// limit if it is lower. None: it suffices.
fn raise_fd_limit(wanted: u64) -> Option<u64> {
    let limits = getrlimit(Resource::Nofile);
    let current = limits.current.filter(|current| *current < wanted)?;
    let raised = limits.maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised_limit = Rlimit {
        current: Some(raised),
        maximum: limits.maximum,
    };
    let available = match setrlimit(Resource::Nofile, raised_limit) {
        Ok(()) => raised,
        Err(_) => current,
    };
    (available < wanted).then_some(available)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn highest_limits_are_lowered_first_until_all_fit() {
        let limits = [16_384, 10_000, 256];
        assert_eq!(
            highest_limit(&limits, needed_by_endpoints(&limits, 16_384)),
            None
        );
        for available in [200, 1_000, 5_000, 25_000] {
            let limit = highest_limit(&limits, available).unwrap();
            assert!(
                needed_by_endpoints(&limits, limit) <= available,
                "{available}"
            );
            assert!(
                needed_by_endpoints(&limits, limit + 1) > available,
                "{available}"
            );
        }
        assert!(
            highest_limit(&limits, 5_000).unwrap() > 2_000,
            "256 of the last one stay"
        );
    }

    #[test]
    fn limit_is_never_below_the_lowest_one() {
        assert_eq!(highest_limit(&[16_384, 5], 0), Some(CONNECTIONS_MIN));
        assert_eq!(highest_limit(&[5], needed_by_endpoints(&[5], 5)), None);
    }

    #[test]
    fn needed_descriptors_of_endpoints_include_rejected_connections() {
        let least = needed_by_endpoints(&[16_384, 5], CONNECTIONS_MIN);
        assert!(least > CONNECTIONS_MIN + 5, "{least}");
        assert!(needed_by_endpoints(&[16_384], u64::MAX) > 16_384);
    }
}
