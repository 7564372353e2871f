//! Numbers, addresses and names of the machines.

use std::net::SocketAddr;

use crate::network::MachineId;
use crate::plan::ClusterSetup;

/// Maximum stores of a run, with those that join. Above it, no store joins.
pub(super) const STORES_MAX: MachineId = 10;

/// Returns the numbers of the stores that form the cluster at its initialization.
pub fn initial_store_ids(setup: &ClusterSetup) -> impl Iterator<Item = MachineId> + use<> {
    1..=setup.stores
}

/// Returns the numbers of the AllocSvrs that run from the start. The next number may join.
pub fn initial_alloc_ids(setup: &ClusterSetup) -> impl Iterator<Item = MachineId> + use<> {
    11..11 + setup.allocs
}

/// Returns the numbers of the clients.
pub fn client_ids(setup: &ClusterSetup) -> impl Iterator<Item = MachineId> + use<> {
    21..21 + setup.clients
}

/// Returns the numbers of the processes that hold a worker.
pub fn holder_ids(setup: &ClusterSetup) -> impl Iterator<Item = MachineId> + use<> {
    31..31 + setup.holders
}

/// Returns the address on which a store listens.
pub fn store_address(id: MachineId) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, id as u8], 7800))
}

/// Returns the address on which an AllocSvr listens.
pub fn alloc_address(id: MachineId) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, id as u8], 7700))
}

/// Returns the name of a machine in reports, which is also the name of an AllocSvr.
pub fn machine_name(id: MachineId) -> String {
    match id {
        0..=10 => format!("s{id}"),
        11..=20 => format!("a{}", id - 10),
        21..=30 => format!("c{}", id - 20),
        _ => format!("h{}", id - 30),
    }
}
