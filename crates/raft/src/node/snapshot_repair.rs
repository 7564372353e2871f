//! Replaces a snapshot file that is damaged while its node runs.
//!
//! Invariant: a leader does not send a damaged snapshot for longer than it takes to write another.
//! Schedule that breaks it: the file rots on the leader's disk. A follower that needs it rejects it
//! each time. openraft sends the same file again, without an end and without a line in the log.
//!
//! So the receiver logs what it rejects, and the sender of a rejected snapshot reads its own file
//! again. If that is damaged, the node builds another from the state in memory. If nothing was
//! applied since, the new one has the same name and replaces the damaged file.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::node::Raft;
use crate::state::state_machine::StateMachine;

/// Checks the newest snapshot each time `suspicions` reports a rejection by a receiver, until
/// stopped.
pub(crate) async fn repair_damaged_snapshots(
    suspicions: Arc<Notify>,
    machine: StateMachine,
    raft: Raft,
    stop: CancellationToken,
) {
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = suspicions.notified() => {}
        }
        let checked = machine.clone();
        let check = seqsvr_os::spawn_blocking(move || checked.verify_newest()).await;
        match check {
            Ok(Ok(())) => tracing::warn!(
                "own snapshot file is whole; the receiver's disk or the network damaged the copy"
            ),
            Ok(Err(damage)) => {
                tracing::error!(
                    error = %damage,
                    "own snapshot file is damaged; building another from the state in memory"
                );
                machine.rebuild_snapshot();
                // The only error is that openraft has stopped, and then its reason is logged.
                let _ = raft.trigger().snapshot().await;
            }
            Err(e) => tracing::warn!(error = %e, "own snapshot file was not checked"),
        }
    }
}
