//! Creation of a cluster.

use seqsvr_core::ids::ClusterId;
use seqsvr_proto::convert::u128_from;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;
use seqsvr_raft::{Error, GroupMember};

use crate::context::StoreContext;
use crate::rpc_errors;

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
        Error::WrongCluster { .. } => RpcError::new(v1::Reason::Rejected, e.to_string()),
        other => rpc_errors::unavailable(other.to_string()),
    })?;
    Ok(v1::InitResponse {})
}
