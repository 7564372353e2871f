//! Calls for operators, through any server: an AllocSvr forwards them to the store. Under TLS it
//! names the server to call instead, for all but the status.

mod ids;

use std::time::Duration;

use bytes::Bytes;
use seqsvr_core::ids::ClusterId;
use seqsvr_core::namespace::{Namespace, NamespaceChange, NamespaceSpec};
use seqsvr_core::server_address::parse_server_address;
use seqsvr_proto::convert::u128_from;
use seqsvr_proto::error::cluster_mismatch_error;
use seqsvr_proto::limits::ALLOC_PORT;
use seqsvr_proto::node_status::bound_node_status;
use seqsvr_proto::v1::{self, Reason};
use tokio::time::timeout;

use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::call::context::CallContext;
use crate::call::first_contact::{self, decide_cluster};
use crate::call::retry_budget::RetryBudget;
use crate::call::rpc::Rpc;
use crate::call::table_fetch::fetch_table;
use crate::call::unary_attempt::attempt_unary_over;
use crate::error::Error;

pub use ids::family_of;

/// Time without data after which the reception of a backup fails.
const BACKUP_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Calls for operators. All may be retried: each is idempotent.
#[derive(Clone)]
pub struct Admin {
    pub(crate) context: CallContext,
}

/// A server that another one named.
struct NamedServer {
    address: String,
    /// Whether it is a StoreSvr; else it is an AllocSvr.
    is_store: bool,
}

/// A backup that is being received.
pub struct BackupStream(tonic::Streaming<v1::BackupChunk>);

impl BackupStream {
    /// Returns the next bytes; None at the end. An error or 30 s of silence ends it: start again.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Error> {
        let to_error = |code, text: String| {
            let text = format!("the backup was interrupted: {text}; start it again");
            Error::new(code, Reason::Unreachable, text)
        };
        match timeout(BACKUP_IDLE_TIMEOUT, self.0.message()).await {
            Ok(Ok(chunk)) => Ok(chunk.map(|c| c.data)),
            Ok(Err(status)) => Err(to_error(
                tonic::Code::Unavailable,
                status.message().to_owned(),
            )),
            Err(_) => Err(to_error(
                tonic::Code::DeadlineExceeded,
                format!("no data for {BACKUP_IDLE_TIMEOUT:?}"),
            )),
        }
    }
}

impl Admin {
    /// Creates a namespace. A repeated call with the same settings returns the same namespace.
    /// Returns once a server's routing table has it, or the deadline is over.
    pub async fn create_namespace(&self, spec: &NamespaceSpec) -> Result<Namespace, Error> {
        spec.validate().map_err(Error::invalid)?;
        let wire = Namespace {
            id: seqsvr_core::ids::NamespaceId(0),
            spec: spec.clone(),
            version: 0,
        };
        let request = v1::CreateNamespaceRequest {
            namespace: Some(v1::Namespace::from(&wire)),
        };
        let mut budget = RetryBudget::new(self.context.deadline);
        let created = self.call_any_server(request, None, &mut budget).await?;
        let created = decode_namespace(&created)?;
        self.wait_for_version(created.version, &mut budget).await;
        Ok(created)
    }

    /// Changes the step and the limits of a namespace. `strict` holds on each AllocSvr once it has
    /// the routing table with the change: within a lease, if its clocks are right.
    pub async fn alter_namespace(
        &self,
        name: &str,
        change: NamespaceChange,
    ) -> Result<Namespace, Error> {
        let request = v1::AlterNamespaceRequest {
            name: name.to_owned(),
            step: change.step,
            step_max: change.step_max,
            raise_to_max: change.raise_to_max,
            strict: change.strict,
        };
        decode_namespace(&self.send_request(request).await?)
    }

    /// Returns all namespaces.
    pub async fn list_namespaces(&self) -> Result<Vec<Namespace>, Error> {
        let reply = self.send_request(v1::ListNamespacesRequest {}).await?;
        reply.namespaces.iter().map(decode_namespace).collect()
    }

    /// Returns the cluster as the StoreSvr leader sees it.
    ///
    /// The later calls of a client that has no cluster yet name that one.
    pub async fn cluster_status(&self) -> Result<v1::ClusterStatusResponse, Error> {
        let status = self.send_request(v1::ClusterStatusRequest {}).await?;
        if let Ok(cluster) = u128_from(&status.cluster, "cluster id: 16 bytes") {
            let table = &self.context.core.table;
            let decided = table.decide_cluster(ClusterId(cluster));
            decided.map_err(|other| cluster_mismatch_error(other.theirs, other.ours))?;
        }
        Ok(status)
    }

    /// Moves a slot to the AllocSvr of this name. No call fails, and each section continues above
    /// the highest number used in it. Returns the slot's epoch once it has moved.
    pub async fn move_slot(&self, slot: u32, name: &str) -> Result<u64, Error> {
        let request = v1::AdminMoveSlotRequest {
            slot,
            target_name: name.to_owned(),
            forwarded: false,
        };
        Ok(self.send_request(request).await?.epoch)
    }

    /// Begins to drain the AllocSvr of this name (or, with `cancel`, lets it own slots again).
    /// Returns at once how many slots it owns now.
    pub async fn drain(&self, name: &str, cancel: bool) -> Result<u32, Error> {
        let request = v1::DrainRequest {
            name: name.to_owned(),
            cancel,
            forwarded: false,
        };
        Ok(self.send_request(request).await?.slots)
    }

    /// Adds the StoreSvr that runs at `address` under that id and belongs to no cluster yet.
    /// Returns the members once it votes. Give the client a deadline of a minute or more: it must
    /// catch up first. If the time runs out it stays a learner, and a retry continues.
    pub async fn add_member(&self, id: u64, address: &str) -> Result<Vec<v1::StoreStatus>, Error> {
        let request = v1::AddMemberRequest {
            id,
            address: address.to_owned(),
        };
        self.change_members(request).await
    }

    /// Removes a StoreSvr, dead or alive; the removal of one that is no member succeeds. Returns
    /// the members left.
    pub async fn remove_member(&self, id: u64) -> Result<Vec<v1::StoreStatus>, Error> {
        self.change_members(v1::RemoveMemberRequest { id }).await
    }

    /// Hands over the StoreSvrs' leadership to a voter, or to one that is up to date. Returns once
    /// that StoreSvr leads.
    pub async fn transfer_leader(&self, to: Option<u64>) -> Result<Vec<v1::StoreStatus>, Error> {
        let id = to.unwrap_or(0);
        self.change_members(v1::TransferLeaderRequest { id }).await
    }

    /// Returns the replicated state at one moment, which includes everything acknowledged before
    /// the call: the bytes of a backup file, chunk by chunk. They carry their own checksums: read
    /// the file back before you rely on it.
    pub async fn backup(&self) -> Result<BackupStream, Error> {
        Ok(BackupStream(self.send_request(v1::BackupRequest {}).await?))
    }

    /// Sends a change of the StoreSvrs' members and returns the members after it.
    async fn change_members<R>(&self, request: R) -> Result<Vec<v1::StoreStatus>, Error>
    where
        R: Rpc<Reply = v1::MembersResponse>,
    {
        let mut budget = RetryBudget::single_attempt(self.context.deadline);
        let reply = self.call_any_server(request, None, &mut budget).await?;
        Ok(reply.stores)
    }

    /// Returns one process's role and counters. Of more than 256 counters the first by name are
    /// returned: the process may be a stranger.
    pub async fn node_status(&self, address: &str) -> Result<v1::NodeStatusResponse, Error> {
        let address = parse_server_address(address, ALLOC_PORT)
            .map_err(|bad| Error::invalid(bad.to_string()))?;
        let mut budget = RetryBudget::new(self.context.deadline);
        let status = self.call_any_server(v1::NodeStatusRequest {}, Some(&address), &mut budget);
        Ok(bound_node_status(status.await?))
    }

    /// Sends a request to one server after the other until one answers.
    async fn send_request<R: Rpc>(&self, request: R) -> Result<R::Reply, Error> {
        let mut budget = RetryBudget::new(self.context.deadline);
        self.call_any_server(request, None, &mut budget).await
    }

    /// Sends a request to one server after the other, or only to `at`. A server that must not serve
    /// it names the next one to try: a StoreSvr that does not lead, or an AllocSvr that relays
    /// nothing for a caller with a certificate. A server that failed is tried again only after each
    /// other one: a StoreSvr that is cut off from the others names a dead leader without end.
    ///
    /// Invariant: an operator's command acts on one cluster. With several servers they decide it
    /// before the first request, and each request names it.
    pub(crate) async fn call_any_server<R: Rpc>(
        &self,
        request: R,
        at: Option<&str>,
        budget: &mut RetryBudget,
    ) -> Result<R::Reply, Error> {
        let core = &self.context.core;
        let mut named: Option<NamedServer> = None;
        let mut failed: Vec<String> = Vec::new();
        loop {
            let hint = named
                .take()
                .filter(|named| !failed.contains(&named.address));
            // A hint may lead to a store of another cluster, which rejects a call that names ours.
            let is_hint_unchecked = hint.is_some() && !core.table.has_cluster();
            if at.is_none()
                && (first_contact::is_due(core) || is_hint_unchecked)
                && let Err(failure) = decide_cluster(core, budget).await
            {
                budget.pause_for_retry(core, &failure).await?;
                named = hint;
                continue;
            }
            let (address, channels) = match (at, hint) {
                (Some(at), _) => (at.to_owned(), &core.channels),
                (None, Some(hint)) if hint.is_store => (hint.address, &core.store_channels),
                (None, Some(hint)) => (hint.address, &core.alloc_channels),
                (None, None) => {
                    let snapshot = core.table.snapshot();
                    let addresses = snapshot.as_ref().map_or(&[][..], |known| &known.addresses);
                    (core.servers.pick_server(addresses, &failed), &core.channels)
                }
            };
            // All others have failed as well.
            if failed.contains(&address) {
                failed.clear();
            }
            failed.push(address.clone());
            let request = request.clone();
            match attempt_unary_over(core, channels, &address, request, budget).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => {
                    budget.pause_for_retry(core, &failure).await?;
                    named = failure.redirect.map(|address| NamedServer {
                        is_store: failure.reason == Reason::NotLeader,
                        address,
                    });
                }
            }
        }
    }

    /// Waits until the table is as new as `version`, so that the next call can use a new namespace.
    /// The namespace exists already: running out of time is no error.
    async fn wait_for_version(&self, version: u64, budget: &mut RetryBudget) {
        let core = &self.context.core;
        loop {
            let version_now = core.table.snapshot().map_or(0, |k| k.table.version());
            if version_now >= version {
                return;
            }
            let failure = match fetch_table(core, version_now, budget).await {
                Ok(snapshot) if snapshot.table.version() >= version => return,
                Ok(_) => AttemptError::new(
                    Reason::NamespaceNotFound,
                    RetryDecision::Retry,
                    "waiting for a routing table with the new namespace".into(),
                ),
                Err(failure) => failure,
            };
            if budget.pause_for_retry(core, &failure).await.is_err() {
                return;
            }
        }
    }
}

/// Reads a namespace of a reply.
fn decode_namespace(wire: &v1::Namespace) -> Result<Namespace, Error> {
    Namespace::try_from(wire).map_err(|e| {
        let text = format!("{e}; client and server versions are incompatible");
        Error::new(tonic::Code::Internal, Reason::Invalid, text)
    })
}
