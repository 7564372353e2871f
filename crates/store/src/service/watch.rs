//! Pushes routing-table changes as they are applied.
//!
//! Invariant: the store sends what the receiver's last message misses, computed only when there is
//! room to send it. So a slow receiver gets fewer, larger deltas, costs one message of memory, and
//! delays no other receiver.

use std::sync::Arc;

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::context::{StoreContext, WATCH_STREAMS_MAX};
use crate::rpc_errors;

type TableMessage = Result<v1::RoutingTable, Status>;

pub(super) fn watch_routes(
    context: &Arc<StoreContext>,
    version: u64,
) -> Result<ReceiverStream<TableMessage>, RpcError> {
    if context.node.with_state(|state| state.cluster().is_none()) {
        return Err(rpc_errors::not_initialized());
    }
    let permit = context.watch_permits.clone().try_acquire_owned();
    let permit = permit.map_err(|_| {
        rpc_errors::overloaded(format!(
            "this store has {WATCH_STREAMS_MAX} Watch streams already: use another store"
        ))
    })?;
    let (sender, receiver) = mpsc::channel(1);
    let context = context.clone();
    tokio::spawn(async move {
        let stop = context.stop.clone();
        stop.run_until_cancelled(push_deltas(&context, version, sender))
            .await;
        drop(permit);
    });
    Ok(ReceiverStream::new(receiver))
}

/// Ends when the receiver hangs up or the node stops.
async fn push_deltas(
    context: &StoreContext,
    mut sent_version: u64,
    sender: mpsc::Sender<TableMessage>,
) {
    let mut applied = context.node.watch_applied();
    while let Ok(room) = sender.reserve().await {
        // A store that lags behind the receiver's version has nothing to send yet.
        let newer = applied.wait_for(|p| p.table_version > sent_version);
        let is_open = tokio::select! {
            newer = newer => newer.is_ok(),
            () = sender.closed() => false,
        };
        let delta = context
            .node
            .with_state(|state| state.delta_since(sent_version));
        let (true, Some(delta)) = (is_open, delta) else {
            return;
        };
        sent_version = delta.version;
        room.send(Ok(v1::RoutingTable::from(&delta)));
    }
}
