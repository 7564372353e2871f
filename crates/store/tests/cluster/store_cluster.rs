//! Clusters of stores with short elections and a short lease, and calls that find the leader.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use seqsvr_proto::v1::store_client::StoreClient;
use seqsvr_store::Options;
use seqsvr_test_support::in_process::{InProcessCluster, http_url};
use seqsvr_test_support::wait::TEST_TIMEOUT;
use tonic::transport::Channel;
use tonic::{Response, Status};

/// D: short, so that sessions expire during a test.
pub(crate) const LEASE: Duration = Duration::from_millis(500);

/// Returns options with short elections.
pub(crate) fn store_options(id: u64, listen: SocketAddr, dir: &Path) -> Options {
    Options {
        heartbeat_ms: 50,
        election_min_ms: 150,
        election_max_ms: 300,
        ..Options::new(id, listen, dir)
    }
}

/// Starts stores that belong to no cluster yet.
pub(crate) async fn start_stores(count: usize) -> InProcessCluster {
    InProcessCluster::start_uninitialized(count, LEASE, store_options).await
}

/// Starts stores that form a cluster.
pub(crate) async fn start_cluster(count: usize) -> InProcessCluster {
    let cluster = start_stores(count).await;
    cluster.initialize().await;
    cluster
}

/// Calls one store after the other until one answers otherwise than "not the leader" or "cannot".
pub(crate) async fn call_leader<T, F>(
    addresses: &[SocketAddr],
    call: impl Fn(StoreClient<Channel>) -> F,
) -> Result<T, RpcError>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        for address in addresses {
            let Ok(client) = StoreClient::connect(http_url(*address)).await else {
                continue;
            };
            match call(client).await {
                Ok(response) => return Ok(response.into_inner()),
                Err(status) => {
                    let fault = RpcError::from_status(&status);
                    let should_retry = matches!(
                        fault.reason(),
                        Reason::NotLeader | Reason::Unreachable | Reason::Unspecified
                    );
                    if !should_retry || Instant::now() > deadline {
                        return Err(fault);
                    }
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
