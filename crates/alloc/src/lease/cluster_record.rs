//! Records the cluster in the state directory before a number of it is given.
//!
//! Invariant: this process serves in no session, and renews none, before the state directory
//! records the cluster durably. Schedule that breaks it: the directory records cluster A, and its
//! disk is full. The operator starts the AllocSvr once with `--join-cluster B`, and it gives
//! numbers of B. At the next start the stores of B are down. The old record and one store of A
//! decide, and the numbers of A are given again.
//!
//! A session that waits for the record is not renewed, because the arbiter gives slots to every
//! session that is. So others own all slots in that time, and calls are forwarded to them. The
//! session may expire; once the cluster is recorded, the first renewal detects that, and another
//! one is opened. A session that serves waits for no record: it is written once a process.
//!
//! This blocks only starts whose directory has no record of this cluster: a new directory, one of a
//! build that recorded none, and `--join-cluster`. Where the record is there, nothing is written.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::ids::ClusterId;
use seqsvr_net::with_open_files_remedy;
use tokio::time::sleep;

use crate::own_cluster::OwnCluster;
use crate::random::RandomSource;
use crate::session::state_dir::StateDir;

/// Pause after the first attempt that failed; each further one is twice as long.
const RETRY_PAUSE_FIRST: Duration = Duration::from_millis(200);
/// Maximum pause between two attempts.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(5);

/// Waits until the state directory records the cluster of this process durably. A cluster counts
/// once it has opened a session, because an `init` that was interrupted leaves ids of clusters that
/// never exist.
pub(super) async fn record_cluster(
    dir: &Arc<StateDir>,
    own_cluster: &OwnCluster,
    random: &RandomSource,
) {
    let Some(cluster) = own_cluster.id().filter(|_| !own_cluster.is_recorded()) else {
        return;
    };
    let mut pause = RETRY_PAUSE_FIRST;
    let mut has_failed = false;
    while let Err(cause) = try_record(dir, cluster).await {
        let cause = with_open_files_remedy(cause.to_string());
        let reason = format!(
            "the state directory {} does not record cluster {cluster}: {cause}; this AllocSvr takes no slots before it does: free space on its file system, or let the user of this process write there",
            dir.path().display()
        );
        // Logged once for each new reason, not at each attempt.
        if own_cluster.set_unrecorded(&reason) {
            tracing::warn!(%reason, "cluster not recorded");
        }
        has_failed = true;
        sleep(random.jitter(pause)).await;
        pause = (2 * pause).min(RETRY_PAUSE_MAX);
    }
    own_cluster.set_recorded();
    if has_failed {
        tracing::info!(%cluster, "the state directory records the cluster now");
    }
}

async fn try_record(dir: &Arc<StateDir>, cluster: ClusterId) -> io::Result<()> {
    let dir = dir.clone();
    let recorded = seqsvr_os::spawn_blocking(move || dir.record_cluster(cluster)).await;
    recorded.unwrap_or_else(|e| Err(io::Error::other(e)))
}
