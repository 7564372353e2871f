//! A whole cluster around one closure, for doc tests.

use std::fmt::Display;

use super::in_process_cluster::{InProcessCluster, LEASE, new_runtime};

/// Starts a StoreSvr and an AllocSvr, calls `test` with the address of the AllocSvr, and stops
/// both.
///
/// # Panics
/// The cluster does not start, or `test` fails.
pub fn run_with_cluster<E: Display>(test: impl AsyncFnOnce(String) -> Result<(), E>) {
    new_runtime(1).block_on(async {
        let cluster = InProcessCluster::start(1, LEASE).await;
        let allocs = cluster.start_allocs(["a1"]).await;
        let outcome = test(allocs[0].local_addr().to_string()).await;
        cluster.stop(&allocs).await;
        if let Err(error) = outcome {
            panic!("{error}");
        }
    });
}
