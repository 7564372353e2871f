//! Callers of other protocols, built on public libraries. They have addresses but no routes. Like
//! such clients in production, they retry at another address after a lost connection or a retryable
//! error.

mod http;
mod redis;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use crate::caller::{Ask, Result};
use crate::cluster::Cluster;
use crate::subject::Subject;

/// Time after which a call fails, retries included.
const PATIENCE: Duration = Duration::from_secs(8);
/// Pause between two attempts.
const REST: Duration = Duration::from_millis(20);

/// Caller of the endpoints of these nodes, in turn.
#[derive(Clone)]
pub struct Door {
    nodes: Arc<[Node]>,
    turn: Arc<AtomicUsize>,
}

enum Node {
    Redis(redis::Node),
    Http(http::Node),
}

/// Result of one attempt for one item.
enum Tried {
    Done(Result),
    /// A retry may succeed, perhaps elsewhere.
    Again(String),
}

impl Door {
    /// Creates a Redis and an HTTP caller for the AllocSvrs at these addresses.
    pub fn both(cluster: &Cluster, addresses: &[String]) -> [Door; 2] {
        let ports = || {
            let all = cluster.alloc_addresses.iter().zip(&cluster.doors);
            all.filter(|(address, _)| addresses.contains(address))
                .map(|(_, ports)| *ports)
        };
        let door = |nodes: Vec<Node>| Door {
            nodes: nodes.into(),
            turn: Arc::default(),
        };
        [
            door(
                ports()
                    .map(|p| Node::Redis(redis::Node::new(p.redis)))
                    .collect(),
            ),
            door(
                ports()
                    .map(|p| Node::Http(http::Node::new(p.http)))
                    .collect(),
            ),
        ]
    }

    pub(crate) async fn ask(&self, ask: Ask, items: &[&Subject]) -> Vec<Result> {
        let until = Instant::now() + PATIENCE;
        let mut results: Vec<Result> = items.iter().map(|_| Err(String::new())).collect();
        let mut left: Vec<usize> = (0..items.len()).collect();
        loop {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed);
            let node = &self.nodes[turn % self.nodes.len()];
            let part: Vec<&Subject> = left.iter().map(|i| items[*i]).collect();
            let tried = match timeout_at(until, node.ask(ask, &part)).await {
                Ok(tried) => tried,
                Err(_) => again(&part, &format!("no answer within {PATIENCE:?}")),
            };
            let mut rest = Vec::new();
            for (i, tried) in left.into_iter().zip(tried) {
                results[i] = match tried {
                    Tried::Done(result) => result,
                    Tried::Again(text) => {
                        rest.push(i);
                        Err(text)
                    }
                };
            }
            if rest.is_empty() || Instant::now() + REST >= until {
                return results;
            }
            left = rest;
            sleep(REST).await;
        }
    }
}

impl Node {
    async fn ask(&self, ask: Ask, items: &[&Subject]) -> Vec<Tried> {
        match self {
            Node::Redis(node) => node.ask(ask, items).await,
            Node::Http(node) => node.ask(ask, items).await,
        }
    }
}

fn again(items: &[&Subject], text: &str) -> Vec<Tried> {
    items
        .iter()
        .map(|_| Tried::Again(text.to_owned()))
        .collect()
}
