//! AllocSvrs of a test: start, callers, counters, and the wait until they own all slots.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;

use seqsvr_alloc::AllocServer;
use seqsvr_client::{Client, ClientOptions};
use seqsvr_core::routing_table::{RoutingDelta, RoutingTable};
use seqsvr_proto::v1::admin_client::AdminClient;
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{NodeStatusRequest, RoutesRequest};
use tonic::transport::Channel;

use super::loopback::http_url;
use crate::wait::{TEST_TIMEOUT, wait_until};

/// Starts an AllocSvr. Does not wait until it owns slots.
pub async fn start_alloc(options: seqsvr_alloc::Options) -> AllocServer {
    AllocServer::start(options).await.unwrap()
}

/// Waits until every slot has one of these owners, each of them owns some, and all have a lease.
pub async fn wait_until_assigned(allocs: &[AllocServer]) {
    let wanted: BTreeSet<String> = allocs.iter().map(|a| a.local_addr().to_string()).collect();
    wait_until("every slot to be owned", TEST_TIMEOUT, async || {
        for alloc in allocs {
            let owners = slot_owners(alloc.local_addr()).await?;
            (owners == wanted && alloc.has_lease()).then_some(())?;
        }
        Some(())
    })
    .await;
}

/// Returns the addresses of the owners of all slots; `None` while a slot has none.
async fn slot_owners(address: SocketAddr) -> Option<BTreeSet<String>> {
    let mut alloc = SequenceClient::connect(http_url(address)).await.ok()?;
    let table = alloc.routes(RoutesRequest::default()).await.ok()?;
    let delta = RoutingDelta::try_from(&table.into_inner()).ok()?;
    let table = RoutingTable::new(delta).ok()?;
    table
        .routes()
        .map(|(_, route)| route.owner.as_ref().map(|o| o.address.clone()))
        .collect()
}

/// Creates a caller without routes.
pub async fn new_caller(alloc: &AllocServer) -> SequenceClient<Channel> {
    SequenceClient::connect(http_url(alloc.local_addr()))
        .await
        .unwrap()
}

/// Creates a client of these AllocSvrs.
pub fn new_client(allocs: &[AllocServer]) -> Client {
    let servers = allocs.iter().map(|a| a.local_addr().to_string());
    Client::new(ClientOptions::new(servers)).unwrap()
}

/// Returns the counters of a store or an AllocSvr.
pub async fn read_counters(address: SocketAddr) -> HashMap<String, u64> {
    let mut admin = AdminClient::connect(http_url(address)).await.unwrap();
    let status = admin.node_status(NodeStatusRequest {}).await.unwrap();
    status.into_inner().counters
}

/// Returns one counter of an AllocSvr.
pub async fn read_counter(alloc: &AllocServer, name: &str) -> u64 {
    read_counters(alloc.local_addr()).await[name]
}
