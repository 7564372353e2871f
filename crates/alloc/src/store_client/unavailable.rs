//! Texts for what this AllocSvr cannot do before a store has answered it.

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

use crate::alloc_identity::AllocIdentity;
use crate::store_client::store_group::StoreGroupClient;

/// Returns the error of a call that needs a routing table, before there is one.
pub(crate) fn no_table_error(identity: &AllocIdentity, stores: &StoreGroupClient) -> RpcError {
    if let Some(undecided) = stores.undecided_error() {
        let text = format!("AllocSvr {} waits: {undecided}", identity.name);
        return RpcError::new(Reason::Unreachable, text);
    }
    let text = format!(
        "AllocSvr {} has no routing table yet; check that a store is reachable at {} and that the cluster is initialized",
        identity.name,
        stores.address_list()
    );
    RpcError::new(Reason::Unreachable, text)
}

/// Returns the error of a call that waits while this process stops.
pub(crate) fn shutting_down_error() -> RpcError {
    RpcError::new(Reason::Unreachable, "this AllocSvr is shutting down")
}

/// Returns the text of an answer that needs a lease, while there is none.
pub(crate) fn no_lease_text(identity: &AllocIdentity, stores: &StoreGroupClient) -> String {
    format!(
        "AllocSvr {} holds no valid lease now; it renews at {}",
        identity.name,
        stores.address_list()
    )
}
