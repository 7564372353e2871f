//! Options of the servers of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{alloc_address, name, store_address, stores};
use crate::net::MachineId;
use crate::plan::Setup;

pub(super) fn store_options(
    setup: &Setup,
    store_id: u64,
    id: MachineId,
    data_dir: PathBuf,
) -> seqsvr_store::Options {
    seqsvr_store::Options {
        heartbeat_ms: setup.heartbeat_ms,
        election_min_ms: 2 * setup.heartbeat_ms,
        election_max_ms: 4 * setup.heartbeat_ms,
        snapshot_every_entries: setup.snapshot_every,
        ..seqsvr_store::Options::new(store_id, store_address(id), data_dir)
    }
}

pub(super) fn alloc_options(
    setup: &Setup,
    id: MachineId,
    dir: &Path,
    seed: u64,
) -> seqsvr_alloc::Options {
    let stores = stores(setup)
        .map(|id| store_address(id).to_string())
        .collect();
    seqsvr_alloc::Options {
        seed: Some(seed),
        // No service manager would restart the AllocSvr if it gave up its name.
        name_wait: Duration::from_secs(3_600),
        idle_after: Duration::from_millis(setup.idle_after_ms),
        // Some AllocSvrs prove that they were restarted; the others wait for their earlier session.
        state_dir: (id % 2 == 1).then(|| dir.join("state")),
        ..seqsvr_alloc::Options::new(name(id), alloc_address(id), stores)
    }
}
