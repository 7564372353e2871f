//! Checks the identity in every call of Raft, and adopts a cluster once.
//!
//! Invariant: a call is let through only if it names this node, this directory's incarnation and
//! this node's cluster. A node without a cluster adopts the one of the first call that knows its
//! incarnation, durably, before that call has any effect. Only a caller that requested the
//! incarnation from this directory can know it. Schedules: see `identity.rs`; and two clusters made
//! over overlapping addresses, where a vote of one must never count in the other. From format level
//! 2 on the sender must match the membership, see `sender.rs`.

pub(crate) mod sender;
mod vote_check;
mod wiped_member;

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use prost::Message;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::planted;
use seqsvr_net::PeerCertificate;
use seqsvr_proto::v1::{RaftHeader, RaftRejection, RaftRejectionReason};
use tokio::sync::watch;
use tonic::{Code, Status};

use crate::error::Error;
use crate::log::{self, LogStore};
use crate::rpc::duplicate_id::VoteOwners;
use crate::rpc::identity_check::sender::{check_certificate, reject_sender};
use crate::rpc::identity_check::wiped_member::{StaleCall, WipedMember};
use crate::rpc::log_throttle::LogThrottle;
use crate::state::applied_state::SharedState;
use crate::state::checkpoints::DigestPoll;
use crate::storage::data_dir::DataDir;
use crate::storage::founder;
use crate::storage::identity::NodeIdentity;

/// Identity of this node, with the lock to change it.
pub(crate) struct IdentityCheck {
    identity: RwLock<NodeIdentity>,
    /// Held while adopting; None once the node has shut down.
    storage: tokio::sync::Mutex<Option<(DataDir, LogStore)>>,
    snapshots_path: PathBuf,
    data_dir: PathBuf,
    log_throttle: LogThrottle,
    shared: Arc<SharedState>,
    log: Weak<log::LogInner>,
    level_max: u32,
    /// Random number of this process.
    process_number: u64,
    vote_owners: VoteOwners,
    wiped_member: WipedMember,
    digest_poll: DigestPoll,
    /// Why this node takes no further part, once that is known.
    stop_reason: watch::Sender<Option<String>>,
}

impl IdentityCheck {
    pub(crate) fn new(
        identity: NodeIdentity,
        directory: DataDir,
        log: LogStore,
        shared: Arc<SharedState>,
        level_max: u32,
    ) -> IdentityCheck {
        IdentityCheck {
            identity: RwLock::new(identity),
            snapshots_path: directory.snapshots_path(),
            data_dir: directory.root().to_owned(),
            log: log.downgrade(),
            storage: tokio::sync::Mutex::new(Some((directory, log))),
            log_throttle: LogThrottle::default(),
            shared,
            level_max,
            process_number: seqsvr_os::random_u64().max(1),
            vote_owners: VoteOwners::default(),
            wiped_member: WipedMember::default(),
            digest_poll: DigestPoll::default(),
            stop_reason: watch::Sender::new(None),
        }
    }

    /// Returns the newest format level that this node supports.
    pub(crate) fn level_max(&self) -> u32 {
        self.level_max
    }

    /// Ends this node's part in the group; the first reason is kept.
    pub(crate) fn stop_node(&self, why: String) {
        self.stop_reason.send_if_modified(|reason| {
            let first = reason.is_none();
            reason.get_or_insert(why);
            first
        });
    }

    /// Returns a watch on the reason why this node takes no further part.
    pub(crate) fn watch_stop_reason(&self) -> watch::Receiver<Option<String>> {
        self.stop_reason.subscribe()
    }

    pub(crate) fn identity(&self) -> NodeIdentity {
        *self.identity.read()
    }

    /// Returns the directory of received snapshots.
    pub(crate) fn snapshots_path(&self) -> &PathBuf {
        &self.snapshots_path
    }

    /// Releases the data directory.
    pub(crate) async fn close(&self) {
        self.storage.lock().await.take();
    }

    /// Returns the header of a call to `target`; None while this node has no cluster, or takes no
    /// further part.
    pub(crate) fn call_header(&self, target: u64, target_incarnation: u64) -> Option<RaftHeader> {
        let identity = self.identity();
        if self.stop_reason.borrow().is_some() {
            return None;
        }
        Some(RaftHeader {
            cluster: identity.cluster?.0.to_be_bytes().to_vec().into(),
            target,
            target_incarnation,
            sender: identity.node,
            sender_incarnation: (self.level_max > 1).then_some(identity.incarnation),
            sender_process: if self.level_max > 1 {
                self.process_number
            } else {
                0
            },
        })
    }

    /// Checks a call's header, and under TLS that the certificate of the caller is the sender's;
    /// adopts its cluster if this node has none.
    pub(crate) async fn check_header(
        &self,
        header: Option<RaftHeader>,
        certificate: Option<&PeerCertificate>,
    ) -> Result<(), Status> {
        let header = header.ok_or_else(|| Status::invalid_argument("the header is missing"))?;
        let cluster: [u8; 16] = header.cluster[..]
            .try_into()
            .map_err(|_| Status::invalid_argument("a cluster id has 16 bytes"))?;
        let cluster = ClusterId(u128::from_be_bytes(cluster));
        let ours = self.identity();
        let wrong_cluster = ours.cluster.is_some_and(|c| c != cluster);
        let reason = if wrong_cluster {
            RaftRejectionReason::WrongCluster
        } else if header.target != ours.node {
            RaftRejectionReason::WrongNode
        } else if header.target_incarnation != ours.incarnation {
            RaftRejectionReason::WrongIncarnation
        } else if let Some(reason) = {
            let applied = self.shared.applied.read();
            reject_sender(&applied, header.sender, header.sender_incarnation)
        } {
            reason
        } else if let Err(why) = {
            let applied = self.shared.applied.read();
            check_certificate(&applied, header.sender, certificate)
        } {
            if self.log_throttle.allow() {
                let sender = header.sender;
                tracing::warn!(node = ours.node, sender, %why, "call rejected: its certificate is not the sender's");
            }
            let reason = RaftRejectionReason::WrongSender;
            return Err(rejection_status_with(reason, &ours, &why));
        } else {
            if ours.cluster.is_none() {
                let adopted = match self.reject_if_called(Some(cluster)) {
                    Ok(()) => self.adopt_cluster(cluster).await,
                    Err(called) => Err(called),
                };
                adopted.map_err(|e| Status::unavailable(e.to_string()))?;
            }
            return Ok(());
        };
        if reason == RaftRejectionReason::WrongIncarnation {
            let sender = header.sender;
            self.wiped_member.note_call(StaleCall { cluster, sender });
        }
        if self.log_throttle.allow() {
            self.log_rejection(reason, &header, cluster);
        }
        Err(rejection_status(reason, &ours))
    }

    /// Returns a leader's answer to a node that was removed.
    pub(crate) fn removed_status(&self) -> Status {
        rejection_status(RaftRejectionReason::Removed, &self.identity())
    }

    /// Makes this node part of a cluster, permanently. Repeating it is harmless.
    pub(crate) async fn adopt_cluster(&self, cluster: ClusterId) -> Result<(), Error> {
        let storage = self.storage.lock().await;
        let adopted = self.adopt_in_storage(storage.as_ref(), cluster).await;
        self.stop_after_failed_write(adopted)
    }

    /// Makes this node part of a cluster that it is requested to make. Returns whether it may begin
    /// the log: not if it got the cluster from another node, see `founder.rs`.
    pub(crate) async fn adopt_as_founder(&self, cluster: ClusterId) -> Result<bool, Error> {
        let storage = self.storage.lock().await;
        let Some((directory, _)) = storage.as_ref() else {
            return Err(Error::Stopped(String::from("it was shut down")));
        };
        if self.identity().cluster.is_none() {
            self.reject_if_called(None)?;
            self.stop_after_failed_write(founder::store_founded_cluster(directory, cluster))?;
        }
        let adopted = self.adopt_in_storage(storage.as_ref(), cluster).await;
        self.stop_after_failed_write(adopted)?;
        Ok(founder::load_founded_cluster(directory)? == Some(cluster) || planted!(FoundTwice))
    }

    /// Rejects a cluster that is to be made, or adopted, while another one calls this node as a
    /// member on another directory: see [`wiped_member`].
    fn reject_if_called(&self, adopted: Option<ClusterId>) -> Result<(), Error> {
        match self.wiped_member.recent_call() {
            Some(call) if adopted != Some(call.cluster) => Err(Error::WipedMember {
                node: self.identity().node,
                cluster: call.cluster,
                sender: call.sender,
            }),
            _ => Ok(()),
        }
    }

    async fn adopt_in_storage(
        &self,
        storage: Option<&(DataDir, LogStore)>,
        cluster: ClusterId,
    ) -> Result<(), Error> {
        let mut identity = self.identity();
        match identity.cluster {
            Some(ours) if ours == cluster => return Ok(()),
            Some(ours) => {
                return Err(Error::WrongCluster {
                    ours,
                    requested: cluster,
                });
            }
            None => identity.cluster = Some(cluster),
        }
        let Some((directory, log)) = storage else {
            return Err(Error::Stopped(String::from("it was shut down")));
        };
        // The log first: an identity with a cluster requires a log with its stamp.
        let stamped = log.set_stamp(identity).await;
        stamped.map_err(Error::writing(log.path()))?;
        identity.store(directory)?;
        *self.identity.write() = identity;
        tracing::info!(node = identity.node, %cluster, "this node now belongs to the cluster");
        Ok(())
    }

    /// Ends this node if the operating system rejected a write, as a failed append does.
    ///
    /// Invariant: no node continues with a log that accepts no writes. Schedule that breaks it: the
    /// sync of the log fails during the adoption; the writer of the log is dead from then on, and
    /// the node rejects each later adoption.
    fn stop_after_failed_write<T>(&self, done: Result<T, Error>) -> Result<T, Error> {
        if let Err(failure @ Error::Io { .. }) = &done {
            self.stop_node(failure.to_string());
        }
        done
    }

    fn log_rejection(&self, reason: RaftRejectionReason, header: &RaftHeader, cluster: ClusterId) {
        let ours = self.identity();
        let sender = header.sender;
        match reason {
            RaftRejectionReason::WrongIncarnation => tracing::error!(
                node = ours.node,
                sender,
                %cluster,
                expected = format!("{:016x}", header.target_incarnation),
                have = format!("{:016x}", ours.incarnation),
                "this data directory is not the one that the cluster has recorded as node {}: it was wiped, replaced or exchanged with another. It stays out, so that no acknowledged write is lost. Bring the old directory back, or: stop this process, run `seqsvr member remove {}`, start with an empty --data-dir and an --id that was never used, and run `seqsvr member add ID=ADDR`",
                ours.node,
                ours.node
            ),
            RaftRejectionReason::WrongSender | RaftRejectionReason::Removed => tracing::warn!(
                node = ours.node,
                sender,
                sender_incarnation = header.sender_incarnation.map(|i| format!("{i:016x}")),
                reason = reason.as_str_name(),
                "call rejected: the membership does not record this sender"
            ),
            RaftRejectionReason::WrongNode => tracing::warn!(
                node = ours.node,
                sender,
                target = header.target,
                "call rejected: it is for another node; check the addresses of the cluster's members"
            ),
            _ => tracing::warn!(
                node = ours.node,
                sender,
                %cluster,
                own_cluster = ours.cluster.map(|c| c.to_string()),
                "call rejected: it is of another cluster than this node's directory; if this store belongs in that cluster, correct its --data-dir, otherwise its --listen address"
            ),
        }
    }
}

fn rejection_status(reason: RaftRejectionReason, ours: &NodeIdentity) -> Status {
    let text = match reason {
        RaftRejectionReason::WrongCluster => "this node belongs to another cluster",
        RaftRejectionReason::WrongNode => "another node is at this address",
        RaftRejectionReason::Removed => "the sending node was removed from the cluster",
        RaftRejectionReason::AnotherProcess => "another process bore this vote before",
        RaftRejectionReason::WrongSender => {
            "the membership records another data directory for the sender's id"
        }
        _ => "this node's data directory was wiped or replaced since it became a member",
    };
    rejection_status_with(reason, ours, text)
}

fn rejection_status_with(reason: RaftRejectionReason, ours: &NodeIdentity, text: &str) -> Status {
    let detail = RaftRejection {
        reason: reason.into(),
        node: ours.node,
        incarnation: ours.incarnation,
        cluster: ours
            .cluster
            .map_or_else(Vec::new, |c| c.0.to_be_bytes().to_vec())
            .into(),
    };
    Status::with_details(
        Code::FailedPrecondition,
        text,
        detail.encode_to_vec().into(),
    )
}

/// Returns the reason of a rejection that a status carries.
pub(crate) fn rejection_reason(status: &Status) -> Option<RaftRejectionReason> {
    if status.code() != Code::FailedPrecondition || status.details().is_empty() {
        return None;
    }
    let detail = RaftRejection::decode(status.details()).ok()?;
    RaftRejectionReason::try_from(detail.reason).ok()
}
