//! Creation of a cluster.
//!
//! Invariant: each store is met at the address under which the membership will name it, before the
//! membership exists. Schedule that breaks it: the `--advertise` of one of three stores names a
//! port on which nothing listens. `init` reaches that store at another address and succeeds, and
//! the cluster does not survive the loss of one more store.

use futures::future::join_all;
use seqsvr_core::ids::ClusterId;
use seqsvr_proto::convert::u128_from;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;
use seqsvr_raft::{Error, GroupMember, MEMBERS_MAX};

use crate::context::StoreContext;
use crate::rpc_errors;
use crate::service::meet_store;

/// Makes the cluster. Repeating it with the same cluster id is harmless and continues where an
/// interrupted one stopped.
pub(super) async fn init_cluster(
    context: &StoreContext,
    request: v1::InitRequest,
) -> Result<v1::InitResponse, RpcError> {
    let cluster = ClusterId(u128_from(&request.cluster, "cluster id: 16 bytes")?);
    if cluster.0 == 0 {
        return Err(rpc_errors::invalid_request(
            "the cluster id must be random, not 0",
        ));
    }
    for member in &request.members {
        rpc_errors::check_address(&member.address)?;
    }
    // A store that belongs to a cluster only continues: the members were met before.
    if context.node.identity().cluster.is_none() {
        meet_members(context, &request.members).await?;
    }
    let members = request.members.into_iter().map(|m| GroupMember {
        id: m.id,
        address: m.address,
        incarnation: m.incarnation,
        is_voter: true,
    });
    let members = members.collect();
    let node = context.node.clone();
    // In a task of its own: a caller that hangs up must not leave the work half done.
    let initialized = tokio::spawn(async move {
        node.create_cluster(members, cluster, request.lease_ms, request.slots)
            .await
    });
    let initialized = initialized
        .await
        .map_err(|e| rpc_errors::unavailable(e.to_string()))?;
    initialized.map_err(|e| match e {
        Error::Members(_) | Error::Options(_) => rpc_errors::invalid_request(e.to_string()),
        Error::WrongCluster { .. } | Error::WipedMember { .. } => {
            RpcError::new(v1::Reason::Rejected, e.to_string())
        }
        other => rpc_errors::unavailable(other.to_string()),
    })?;
    Ok(v1::InitResponse {})
}

/// Checks that each member answers at its address, this store included. Changes nothing.
///
/// # Errors
/// The text names each member that does not.
async fn meet_members(context: &StoreContext, members: &[v1::Member]) -> Result<(), RpcError> {
    // A list that is too long is rejected later, before anything changes.
    let members = members.iter().take(MEMBERS_MAX);
    let own = context.node.identity();
    let meetings = members.map(async |member| {
        // A wrong incarnation of this store is rejected later, as an invalid request.
        let incarnation = match member.id == own.node {
            true => own.incarnation,
            false => member.incarnation,
        };
        let met = meet_store(context, &member.address, incarnation).await;
        met.map_err(|cause| format!("store {}: {cause}", member.id))
    });
    let unmet: Vec<String> = join_all(meetings)
        .await
        .into_iter()
        .filter_map(Result::err)
        .collect();
    if unmet.is_empty() {
        return Ok(());
    }
    let text = format!(
        "not every store is reached at its own address, under which the other servers would call it: {}; nothing was changed; correct --advertise (or --listen) of these stores, start them again, and repeat the command",
        unmet.join("; ")
    );
    Err(RpcError::new(v1::Reason::Rejected, text))
}
