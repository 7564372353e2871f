//! The leader, as this node sees it.

use std::error::Error as _;
use std::sync::Arc;

use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use openraft::errors::Fatal;
use openraft::type_config::alias::WatchReceiverOf;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::state::applied_state::SharedState;
use crate::storage::first_error::FirstError;
use crate::types::TypeConfig;

pub(crate) type NodeMetrics = openraft::RaftMetrics<TypeConfig>;

/// Role of this node in its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RaftRole {
    /// Has no vote: in no cluster yet, or not a voter.
    #[default]
    Learner,
    /// Follows.
    Follower,
    /// Requests votes.
    Candidate,
    /// Leads; a newer leader may be elected already.
    Leader,
    /// Stopped.
    Stopped,
}

/// Leadership as this node sees it. It may lag behind the group by an election, in both directions:
/// another node may lead already. So nothing is safe *because* of this value. An action that a
/// deposed leader must not take goes through [`RaftNode::propose`](crate::RaftNode::propose). Only
/// a quorum can commit it, and it names the term it was decided in. A read that must be current
/// goes through [`RaftNode::confirm_leadership`](crate::RaftNode::confirm_leadership).
///
/// Within one node it is consistent: `ready_term` is sent only after the state that readers see
/// contains every entry of earlier terms. A change of term clears it in the same update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    /// Current term.
    pub term: u64,
    /// This node's role in it.
    pub role: RaftRole,
    /// The leader's id and address, if known.
    pub leader: Option<(u64, String)>,
    /// `Some(term)` once this node leads and has applied the first entry of its own term.
    pub ready_term: Option<u64>,
}

impl Leadership {
    pub(crate) fn from_metrics(metrics: &NodeMetrics) -> Leadership {
        let role = match metrics.state {
            ServerState::Learner => RaftRole::Learner,
            ServerState::Follower => RaftRole::Follower,
            ServerState::Candidate => RaftRole::Candidate,
            ServerState::Leader => RaftRole::Leader,
            ServerState::Shutdown => RaftRole::Stopped,
        };
        let role = match metrics.running_state {
            Ok(()) => role,
            Err(_) => RaftRole::Stopped,
        };
        let applied_term = metrics.last_applied.map(|id| id.leader_id.term);
        let term = metrics.current_term;
        let membership = metrics.membership_config.membership();
        Leadership {
            term,
            role,
            leader: metrics.current_leader.and_then(|id| {
                let peer = membership.get_node(&id)?;
                Some((id, peer.address.clone()))
            }),
            ready_term: (role == RaftRole::Leader && applied_term == Some(term)).then_some(term),
        }
    }
}

/// Returns the last line of a node that stopped by itself. The storage says what failed, where, and
/// what to do; openraft would put its own names of it in front. A failure of the state comes first:
/// openraft may find the channel of its worker closed before it reads the worker's error.
pub(crate) fn stop_text(fatal: &Fatal<TypeConfig>, state: &FirstError) -> String {
    if let Some(failure) = state.get() {
        return failure.to_string();
    }
    let source = match fatal {
        Fatal::StorageError(e) => e.source(),
        _ => None,
    };
    let text = source.map_or_else(|| fatal.to_string(), ToString::to_string);
    let bare = text.strip_prefix("std::io::error::Error: ");
    bare.unwrap_or(&text).to_owned()
}

/// Follows openraft's metrics until stopped. Resolves `failed` if Raft stops by itself, or has to
/// stop because of what `stop_reason` holds.
pub(crate) async fn follow_leadership(
    mut metrics: WatchReceiverOf<TypeConfig, NodeMetrics>,
    mut stop_reason: watch::Receiver<Option<String>>,
    shared: Arc<SharedState>,
    leadership: watch::Sender<Leadership>,
    failed: watch::Sender<Option<String>>,
    stop: CancellationToken,
) {
    let reason = loop {
        let (now, running) = {
            let metrics = metrics.borrow_watched();
            (
                Leadership::from_metrics(&metrics),
                metrics.running_state.clone(),
            )
        };
        leadership.send_if_modified(|last| {
            let changed = *last != now;
            *last = now;
            changed
        });
        let ended = running.err();
        let ended = ended.map(|fatal| stop_text(&fatal, &shared.first_error));
        // A loss comes first: openraft is stopped because of it.
        let why = stop_reason.borrow_and_update().clone().or(ended);
        if why.is_some() {
            break why;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break None,
            Ok(()) = stop_reason.changed() => {}
            changed = metrics.changed() => if changed.is_err() {
                break Some(String::from("raft's task ended"));
            },
        }
    };
    // Before the failure: a task that receives it must not find another role than `Stopped`.
    leadership.send_modify(|last| {
        last.role = RaftRole::Stopped;
        last.ready_term = None;
    });
    if let Some(reason) = reason.filter(|_| !stop.is_cancelled()) {
        tracing::error!(%reason, "raft node stopped");
        failed.send_replace(Some(reason));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::ErrorKind;
    use std::panic::resume_unwind;
    use std::time::Duration;

    use openraft::storage::RaftStateMachine;
    use seqsvr_net::TcpTransport;
    use tokio::sync::oneshot;

    use super::*;
    use crate::node::RaftNode;
    use crate::options::Options;
    use crate::types::Peer;

    /// Schedule: an entry cannot be applied, and openraft's worker ends. Before openraft's core
    /// reads why, it has another entry for the worker and finds its channel closed.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn failure_of_state_is_reported_before_the_closed_channel() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
        let node = RaftNode::open(options, Arc::new(TcpTransport)).await;
        let node = node.unwrap();
        let raft = &node.inner.raft;
        let ((go, wait), (queued, closed)) = (oneshot::channel(), oneshot::channel::<()>());
        let fail = raft.external_state_machine_request(move |machine| {
            let mut machine = machine.clone();
            Box::pin(async move {
                wait.await.unwrap();
                let entries = futures::stream::iter([Err(ErrorKind::StorageFull.into())]);
                machine.apply(entries).await.unwrap_err();
                // Ends the worker, with its error unread.
                resume_unwind(Box::new("worker ends"));
            })
        });
        fail.await.unwrap();
        // Dropped when the worker's channel is closed.
        let behind = raft.external_state_machine_request(|_| Box::pin(async { drop(queued) }));
        behind.await.unwrap();
        go.send(()).unwrap();
        closed.await.unwrap_err();

        let peer = Peer {
            address: String::from("127.0.0.1:1"),
            incarnation: node.identity().incarnation,
        };
        raft.initialize(BTreeMap::from([(1, peer)])).await.unwrap();
        let mut failed = node.watch_failure();
        let reason =
            tokio::time::timeout(Duration::from_secs(20), failed.wait_for(Option::is_some));
        let reason = reason.await.expect("the node ends").unwrap().clone();
        let reason = reason.unwrap();
        let state = dir.path().join("data/state");
        for part in [state.to_str().unwrap(), "free space on its file system"] {
            assert!(reason.contains(part), "no {part:?} in: {reason}");
        }
        node.shutdown().await;
    }
}
