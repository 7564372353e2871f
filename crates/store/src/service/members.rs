//! The StoreSvrs of the group: their identities, and changes of the group while it works.
//!
//! Invariant: a store is added only after the store at the given address reported its identity. Its
//! id and the incarnation of its data directory go into the membership from there, never from the
//! request. Schedule that breaks it: a voter's disk is wiped and an operator adds "store 3" again.
//! Accepted by its id alone, it would vote without the entries it once acknowledged. By its
//! incarnation it is another store.

use std::time::Duration;

use seqsvr_core::ids::ClusterId;
use seqsvr_proto::convert::u128_from;
use seqsvr_proto::error::{RpcError, local_cause};
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_proto::v1::{self, Reason};
use seqsvr_raft::MemberError;
use tokio::time::{Instant, sleep, timeout_at};
use tonic::Code;

use crate::context::{StoreContext, to_address};
use crate::rpc_errors;

/// Maximum time for the new store to report its identity; after it the call fails.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(5);
const DESCRIBE_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the members in the view of this store; only the leader has the progress of the others.
pub(super) fn list_members(context: &StoreContext) -> Vec<v1::StoreStatus> {
    let own = context.node.identity().node;
    let leader = context.leadership().leader.map(|(id, _)| id);
    let mut matched = context.node.matched_indexes();
    matched.insert(own, context.node.counters().last_log_index);
    let last_ack_age_ms = |id| {
        let ago = (id != own).then(|| context.node.last_ack_age(id)).flatten();
        ago.map(|ago| ago.as_millis() as u64)
    };
    let status = |m: seqsvr_raft::GroupMember| v1::StoreStatus {
        leader: leader == Some(m.id),
        match_index: matched.get(&m.id).copied().unwrap_or(0),
        last_ack_age_ms: last_ack_age_ms(m.id),
        id: m.id,
        address: m.address,
        voter: m.is_voter,
    };
    context.node.members().into_iter().map(status).collect()
}

pub(super) async fn add_member(
    context: &StoreContext,
    request: v1::AddMemberRequest,
) -> Result<v1::MembersResponse, RpcError> {
    context.confirm_leadership().await?;
    let v1::AddMemberRequest { id, address } = request;
    rpc_errors::check_address(&address)?;
    let found = describe_store(context, id, &address).await?;
    if found.node != id {
        return Err(rpc_errors::invalid_request(format!(
            "the store at {address} is store {}, not store {id}: correct the id or the address",
            found.node
        )));
    }
    let own_cluster = context.node.identity().cluster;
    if !found.cluster.is_empty() {
        let other_cluster = ClusterId(u128_from(&found.cluster, "cluster id: 16 bytes")?);
        if Some(other_cluster) != own_cluster {
            let text = format!(
                "store {id} at {address} belongs to another cluster, {other_cluster}: start it with an empty --data-dir to add it here"
            );
            return Err(RpcError::new(Reason::Rejected, text));
        }
    }
    let level = context.node.with_state(|state| state.format_level());
    if found.format_level.max(1) < level {
        let text = format!(
            "store {id} at {address} supports format level {}, the cluster is at {level}: start it with the build that the other stores run",
            found.format_level.max(1)
        );
        return Err(RpcError::new(Reason::Rejected, text));
    }
    // As in `init`: under the address at which it is to be reached. It must lead to that store;
    // otherwise the group would get a member that no other one reaches.
    rpc_errors::check_address(&found.address)?;
    if found.address != address
        && let Err(cause) = meet_store(context, &found.address, found.incarnation).await
    {
        let text = format!(
            "store {id} at {address} has the --advertise {}, but {cause}: correct it and start the store again",
            found.address
        );
        return Err(RpcError::new(Reason::Rejected, text));
    }
    let added = context
        .node
        .add_member(id, &found.address, found.incarnation);
    to_response(context, added.await)
}

pub(super) async fn remove_member(
    context: &StoreContext,
    request: v1::RemoveMemberRequest,
) -> Result<v1::MembersResponse, RpcError> {
    context.require_leader()?;
    to_response(context, context.node.remove_member(request.id).await)
}

pub(super) async fn transfer_leader(
    context: &StoreContext,
    request: v1::TransferLeaderRequest,
) -> Result<v1::MembersResponse, RpcError> {
    context.require_leader()?;
    let to = (request.id > 0).then_some(request.id);
    to_response(context, context.node.transfer_leader(to).await)
}

/// Waits until the data directory with this incarnation answers at the address under which other
/// servers are to reach it. The store may have been started a moment ago.
///
/// # Errors
/// Nothing answers there, or another server; the text says which.
pub(crate) async fn meet_store(
    context: &StoreContext,
    address: &str,
    incarnation: u64,
) -> Result<(), String> {
    let found = match request_identity(context, address).await {
        Ok(found) => found,
        Err(NoIdentity::BadAddress(text)) => return Err(text),
        Err(NoIdentity::NoStore) => return Err(format!("{address} is not a StoreSvr")),
        Err(NoIdentity::Silent(cause)) => {
            return Err(format!("no store answers at {address} ({cause})"));
        }
    };
    match found.incarnation == incarnation {
        true => Ok(()),
        false => Err(format!(
            "another store answers at {address}: store {} on another data directory",
            found.node
        )),
    }
}

/// Returns the identity of the store with that id, which an operator has just started at that
/// address.
async fn describe_store(
    context: &StoreContext,
    id: u64,
    address: &str,
) -> Result<v1::DescribeResponse, RpcError> {
    request_identity(context, address).await.map_err(|why| match why {
        NoIdentity::BadAddress(text) => rpc_errors::invalid_request(text),
        NoIdentity::NoStore => rpc_errors::invalid_request(format!(
            "{address} is not a StoreSvr: give the address of the new one"
        )),
        NoIdentity::Silent(cause) => {
            let text = format!(
                "no store answers at {address} ({cause}): start it with `seqsvr store --id {id} --listen {address} --data-dir DIR`, where DIR is new, then repeat the command"
            );
            RpcError::new(Reason::Rejected, text)
        }
    })
}

/// Reason why a server did not report the identity of a store.
enum NoIdentity {
    BadAddress(String),
    /// It is a server of another kind.
    NoStore,
    /// It did not answer in time; the cause of the last attempt.
    Silent(String),
}

/// Requests the identity of the store at that address until it answers or the time is over.
async fn request_identity(
    context: &StoreContext,
    address: &str,
) -> Result<v1::DescribeResponse, NoIdentity> {
    let channel = context.node.new_channel(address);
    let mut store = StoreClient::new(channel.map_err(NoIdentity::BadAddress)?);
    let deadline = Instant::now() + DESCRIBE_TIMEOUT;
    loop {
        let described = timeout_at(deadline, store.describe(v1::DescribeRequest {})).await;
        let cause = match described {
            Ok(Ok(found)) => return Ok(found.into_inner()),
            Ok(Err(status)) if status.code() == Code::Unimplemented => {
                return Err(NoIdentity::NoStore);
            }
            Ok(Err(status)) => local_cause(&status).unwrap_or_else(|| status.message().to_owned()),
            Err(_) => format!("it does not answer within {DESCRIBE_TIMEOUT:?}"),
        };
        if Instant::now() + DESCRIBE_RETRY_INTERVAL >= deadline {
            return Err(NoIdentity::Silent(cause));
        }
        sleep(DESCRIBE_RETRY_INTERVAL).await;
    }
}

fn to_response(
    context: &StoreContext,
    result: Result<(), MemberError>,
) -> Result<v1::MembersResponse, RpcError> {
    let Err(error) = result else {
        return Ok(v1::MembersResponse {
            stores: list_members(context),
        });
    };
    let text = error.to_string();
    Err(match error {
        MemberError::NotLeader { leader } => rpc_errors::not_leader(to_address(leader)),
        MemberError::Busy => rpc_errors::overloaded(text),
        MemberError::Rejected(_) => RpcError::new(Reason::Rejected, text),
        MemberError::Unfinished(_) | MemberError::Stopped(_) => rpc_errors::unavailable(text),
    })
}
