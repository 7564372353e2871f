//! Makes the cluster, once.
//!
//! Invariant: everything that can be rejected is rejected before this node belongs to the cluster,
//! and every step after that may be repeated. Only the node that was requested to make the cluster
//! begins the log, see `founder.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use openraft::errors::{InitializeError, RaftError};
use seqsvr_core::command::{Batch, Command, CommandRejection, Reply};
use seqsvr_core::ids::ClusterId;
use seqsvr_core::state::State;
use tokio::time::Instant;

use super::{GroupMember, RaftNode};
use crate::detach_on_drop::detach_on_drop;
use crate::error::Error;
use crate::limits::{ADDRESS_BYTES_MAX, MEMBERS_MAX};
use crate::node::leadership::RaftRole;
use crate::types::Peer;

/// Time for which `init` waits for a quorum of the members.
const INIT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for which `init` waits for a leader at a node that must not begin the log itself.
const LEADER_WAIT_TIMEOUT: Duration = Duration::from_secs(3);

impl RaftNode {
    /// Makes the cluster with these members, among them this node; each must run and report the
    /// incarnation given. Waits until the state says that the cluster exists. Repeating the call
    /// with the same cluster id is harmless and continues where it was interrupted.
    ///
    /// # Errors
    /// [`Error::Members`], [`Error::WrongCluster`] and [`Error::WipedMember`] changed nothing;
    /// after [`Error::Unfinished`] repeat the call.
    pub async fn create_cluster(
        &self,
        members: Vec<GroupMember>,
        cluster: ClusterId,
        lease_ms: u32,
        slots: u32,
    ) -> Result<(), Error> {
        let init = Batch {
            commands: vec![Command::Init {
                cluster,
                lease_ms,
                slots,
            }],
        };
        // A command that the state would reject must be rejected before the cluster exists.
        let dry = State::default().apply(0, &init, &mut BTreeSet::new());
        if let Some(Reply::Rejected(refusal)) = dry.into_iter().next() {
            return Err(Error::Members(refusal.to_string()));
        }
        let peers = self.check_members(members)?;
        let is_founder = self.inner.identity_check.adopt_as_founder(cluster).await?;
        let (timeout, mut why) = match is_founder {
            true => (INIT_TIMEOUT, String::from("no leader yet")),
            false => (
                LEADER_WAIT_TIMEOUT,
                String::from(
                    "this store got the cluster from another store, which must make it, and has no leader",
                ),
            ),
        };
        if is_founder {
            self.begin_log(peers).await?;
        }
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(made) = self.with_state(|s| s.cluster().map(|c| c.id)) {
                return match made == cluster {
                    true => Ok(()),
                    false => Err(Error::WrongCluster {
                        ours: made,
                        requested: cluster,
                    }),
                };
            }
            if Instant::now() >= deadline {
                return Err(Error::Unfinished(why));
            }
            let step = self.propose_init(&init, lease_ms, slots);
            match tokio::time::timeout_at(deadline, step).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) if !is_founder => {}
                Ok(Err(e)) => why = e,
                Err(_) => why = String::from("no quorum of the members answers"),
            }
            // This node applies it a moment after the leader, or has no leader yet.
            let mut progress = self.watch_applied();
            let _ = tokio::time::timeout(Duration::from_millis(50), progress.changed()).await;
        }
    }

    async fn begin_log(&self, peers: BTreeMap<u64, Peer>) -> Result<(), Error> {
        let raft = self.inner.raft.clone();
        match detach_on_drop(async move { raft.initialize(peers).await }).await {
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(RaftError::APIError(e)) => Err(Error::Members(e.to_string())),
            Err(RaftError::Fatal(e)) => Err(Error::Stopped(e.to_string())),
        }
    }

    async fn propose_init(&self, init: &Batch, lease_ms: u32, slots: u32) -> Result<(), String> {
        let seen = self.leadership().borrow().clone();
        match (seen.role, seen.leader) {
            (RaftRole::Leader, _) => match self.propose(init.clone()).await {
                Ok(replies) => match replies.into_iter().next() {
                    Some(Reply::Done) => Ok(()),
                    Some(Reply::Rejected(CommandRejection::AlreadyInitialized(_))) => Ok(()),
                    other => Err(format!("unexpected reply {other:?}")),
                },
                Err(e) => Err(e.to_string()),
            },
            (_, Some((leader, _))) => {
                let peers = self.current_members().peers;
                let peer = peers.get(&leader).ok_or("the leader is not a member")?;
                let connection = self.inner.network.connect(leader, peer);
                connection
                    .propose_init(lease_ms, slots, Duration::from_secs(3))
                    .await
            }
            _ => Err(String::from("no leader yet")),
        }
    }

    fn check_members(&self, members: Vec<GroupMember>) -> Result<BTreeMap<u64, Peer>, Error> {
        let wrong = |text: String| Err(Error::Members(text));
        let ours = self.identity();
        if members.is_empty() || members.len() > MEMBERS_MAX {
            return wrong(format!("give 1 to {MEMBERS_MAX} members"));
        }
        let mut peers = BTreeMap::new();
        let mut addresses = BTreeSet::new();
        for GroupMember {
            id,
            address,
            incarnation,
            ..
        } in members
        {
            if id == 0 || address.is_empty() || address.len() > ADDRESS_BYTES_MAX {
                return wrong(format!(
                    "member {id}: an id is above 0, an address has 1 to {ADDRESS_BYTES_MAX} bytes"
                ));
            }
            if !addresses.insert(address.clone()) {
                return wrong(format!("address {address} is given twice"));
            }
            let peer = Peer {
                address,
                incarnation,
            };
            if peers.insert(id, peer).is_some() {
                return wrong(format!("member {id} is given twice"));
            }
        }
        match peers.get(&ours.node) {
            Some(own) if own.incarnation == ours.incarnation => Ok(peers),
            Some(_) => wrong(format!("node {} has another incarnation", ours.node)),
            None => wrong(format!(
                "node {}, which received the request, is no member",
                ours.node
            )),
        }
    }
}
