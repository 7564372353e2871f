//! Options of the servers of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use seqsvr_core::ids::ClusterId;

use super::machine_ids::{alloc_address, machine_name, store_address};
use crate::network::MachineId;
use crate::plan::ClusterSetup;

pub(super) fn store_options(
    setup: &ClusterSetup,
    store_id: u64,
    id: MachineId,
    data_dir: PathBuf,
) -> seqsvr_store::Options {
    seqsvr_store::Options {
        heartbeat_ms: setup.heartbeat_ms,
        election_min_ms: 2 * setup.heartbeat_ms,
        election_max_ms: 4 * setup.heartbeat_ms,
        snapshot_interval_entries: setup.snapshot_every,
        ..seqsvr_store::Options::new(store_id, store_address(id), data_dir)
    }
}

/// Returns the options of an AllocSvr that starts with these stores. `remade_cluster` is the
/// cluster that an operator made in place of the first one.
pub(super) fn alloc_options(
    setup: &ClusterSetup,
    id: MachineId,
    root_dir: &Path,
    seed: u64,
    stores: &[MachineId],
    remade_cluster: Option<ClusterId>,
) -> seqsvr_alloc::Options {
    let store_addresses = stores.iter().map(|id| store_address(*id).to_string());
    seqsvr_alloc::Options {
        seed: Some(seed),
        // No service manager would restart the AllocSvr if it gave up its name.
        name_conflict_timeout: Duration::from_secs(3_600),
        section_idle_timeout: Duration::from_millis(setup.idle_after_ms),
        // Some AllocSvrs prove that they were restarted; the others wait for their earlier session.
        state_dir: (id % 2 == 1).then(|| root_dir.join("state")),
        // A state directory may be of the cluster before. Without one, most of the stores decide.
        join_cluster: remade_cluster.filter(|_| id % 2 == 1),
        ..seqsvr_alloc::Options::new(
            machine_name(id),
            alloc_address(id),
            store_addresses.collect(),
        )
    }
}
