//! Pushes routing-table changes as they are applied.
//!
//! Invariant: the store sends what the receiver's last message misses, computed only when there is
//! room to send it. So a slow receiver gets fewer, larger deltas, costs one message of memory, and
//! delays no other receiver.

use std::sync::Arc;

use seqsvr_proto::error::Fault;
use seqsvr_proto::v1;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::context::Context;
use crate::fault;

type Message = Result<v1::RoutingTable, Status>;

pub(super) fn watch(
    context: &Arc<Context>,
    version: u64,
) -> Result<ReceiverStream<Message>, Fault> {
    if context.node.with_state(|state| state.cluster().is_none()) {
        return Err(fault::not_initialised());
    }
    let permit = context.watchers.clone().try_acquire_owned();
    let permit = permit.map_err(|_| fault::too_many("too many watch this store: ask another"))?;
    let (sender, receiver) = mpsc::channel(1);
    let context = context.clone();
    tokio::spawn(async move {
        let stop = context.stop.clone();
        stop.run_until_cancelled(push(&context, version, sender))
            .await;
        drop(permit);
    });
    Ok(ReceiverStream::new(receiver))
}

/// Ends when the receiver hangs up or the node stops.
async fn push(context: &Context, mut sent: u64, sender: mpsc::Sender<Message>) {
    let mut applied = context.node.applied();
    while let Ok(room) = sender.reserve().await {
        // A store that lags behind the receiver's version has nothing to send yet.
        let newer = applied.wait_for(|p| p.table_version > sent);
        let known = tokio::select! {
            newer = newer => newer.is_ok(),
            () = sender.closed() => false,
        };
        let delta = context.node.with_state(|state| state.delta_since(sent));
        let (true, Some(delta)) = (known, delta) else {
            return;
        };
        sent = delta.version;
        room.send(Ok(v1::RoutingTable::from(&delta)));
    }
}
