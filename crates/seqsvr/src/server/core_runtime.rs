//! Runtimes of everything whose lateness costs a lease or a leadership. Their threads have the
//! usual priority and do nothing else, so that a renewal, a heartbeat or a vote waits behind no
//! call (`docs/adr/0026-lease-and-raft-threads.md` has the measurement).
//!
//! They run until the process ends: connections that other runtimes serve may use their timers, and
//! would panic without them.

use std::io;

use tokio::runtime::{Builder, Handle};

use crate::server::runtime::EVENT_INTERVAL;

/// Threads of the core of stores. With two, a long poll of one task delays no other.
const STORE_THREADS: usize = 2;

/// Starts the thread on which leases of AllocSvrs are renewed.
pub(crate) fn start_lease_runtime() -> io::Result<Handle> {
    start("lease", 1)
}

/// Starts the threads of Raft, of the arbiter and of renewals at stores.
pub(crate) fn start_store_runtime() -> io::Result<Handle> {
    start("raft", STORE_THREADS)
}

fn start(name: &str, threads: usize) -> io::Result<Handle> {
    let runtime = Builder::new_multi_thread()
        .thread_name(name)
        .worker_threads(threads)
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build()?;
    let handle = runtime.handle().clone();
    std::mem::forget(runtime);
    Ok(handle)
}
