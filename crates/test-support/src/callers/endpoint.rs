//! Callers of other protocols, built on public libraries. They have addresses but no routes. Like
//! such clients in production, they retry at another address after a lost connection or a retryable
//! error.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::attempt::{AttemptResult, retry_all};
use super::test_call::{ItemOutcome, TestCall};
use super::{http, redis};
use crate::process_cluster::ProcessCluster;
use crate::test_keys::TestKey;

/// Time after which a call fails, retries included.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Caller of the endpoints of these nodes, in turn.
#[derive(Clone)]
pub struct EndpointCaller {
    nodes: Arc<[EndpointClient]>,
    attempts: Arc<AtomicUsize>,
}

enum EndpointClient {
    Redis(redis::RedisClient),
    Http(http::HttpClient),
}

impl EndpointCaller {
    /// Creates a Redis and an HTTP caller for the AllocSvrs at these addresses.
    pub fn redis_and_http(cluster: &ProcessCluster, addresses: &[String]) -> [EndpointCaller; 2] {
        let ports = || {
            let all = cluster.alloc_addresses.iter().zip(&cluster.endpoint_ports);
            all.filter(|(address, _)| addresses.contains(address))
                .map(|(_, ports)| *ports)
        };
        let new_caller = |nodes: Vec<EndpointClient>| EndpointCaller {
            nodes: nodes.into(),
            attempts: Arc::default(),
        };
        [
            new_caller(
                ports()
                    .map(|p| EndpointClient::Redis(redis::RedisClient::new(p.redis)))
                    .collect(),
            ),
            new_caller(
                ports()
                    .map(|p| EndpointClient::Http(http::HttpClient::new(p.http)))
                    .collect(),
            ),
        ]
    }

    pub(crate) async fn call(&self, call: TestCall, items: &[&TestKey]) -> Vec<ItemOutcome> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        let mut results: Vec<ItemOutcome> = items.iter().map(|_| Err(String::new())).collect();
        let mut keys_left: Vec<usize> = (0..items.len()).collect();
        loop {
            let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
            let node = &self.nodes[attempt % self.nodes.len()];
            let attempt_keys: Vec<&TestKey> = keys_left.iter().map(|i| items[*i]).collect();
            let attempted = match timeout_at(deadline, node.call(call, &attempt_keys)).await {
                Ok(attempted) => attempted,
                Err(_) => retry_all(&attempt_keys, &format!("no answer within {CALL_TIMEOUT:?}")),
            };
            let mut retry_indexes = Vec::new();
            for (i, attempted) in keys_left.into_iter().zip(attempted) {
                results[i] = match attempted {
                    AttemptResult::Done(result) => result,
                    AttemptResult::Retry(text) => {
                        retry_indexes.push(i);
                        Err(text)
                    }
                };
            }
            if retry_indexes.is_empty() || Instant::now() + RETRY_PAUSE >= deadline {
                return results;
            }
            keys_left = retry_indexes;
            sleep(RETRY_PAUSE).await;
        }
    }
}

impl EndpointClient {
    async fn call(&self, call: TestCall, items: &[&TestKey]) -> Vec<AttemptResult> {
        match self {
            EndpointClient::Redis(node) => node.call(call, items).await,
            EndpointClient::Http(node) => node.call(call, items).await,
        }
    }
}
