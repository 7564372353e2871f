//! Counters of the cluster during a run.

use std::time::Duration;

use anyhow::Context as _;
use futures::future::join_all;
use seqsvr_client::Client;
use seqsvr_proto::v1::NodeStatusResponse;
use serde::{Deserialize, Serialize};

/// Maximum time for the counters of one process; after it, it counts as silent. Shorter than a run.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// Sums of the counters of all processes that answered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterCounters {
    /// Numbers that all AllocSvrs issued, to this program and to others.
    pub numbers_issued: u64,
    /// Confirmed raises of windows.
    pub raises: u64,
    /// Log entries that carried raises.
    pub raise_entries: u64,
    /// Syncs of the log of the store that had the most.
    pub fsyncs: u64,
    /// Calls that had to wait for a raise.
    pub window_waits: u64,
    /// Items that the receiving AllocSvr forwarded to the owner.
    pub forwarded: u64,
    /// Addresses of the processes that did not answer; the sums are without theirs.
    pub silent: Vec<String>,
}

impl ClusterCounters {
    /// Reads the counters of all processes but those that are known to be silent.
    ///
    /// # Errors
    /// The status of the cluster cannot be read, or a process that answers has no counter of one of
    /// these names.
    pub(crate) async fn read(client: &Client, silent: &[String]) -> anyhow::Result<Self> {
        let cluster = client.admin().cluster_status().await?;
        let admin = client.with_deadline(NODE_TIMEOUT).admin();
        let stores: Vec<&String> = cluster.stores.iter().map(|s| &s.address).collect();
        let allocs = cluster.sessions.iter().map(|s| &s.address);
        let addresses: Vec<&String> = stores.iter().copied().chain(allocs).collect();
        let calls = addresses
            .iter()
            .map(async |address| match silent.contains(address) {
                true => None,
                false => admin.node_status(address).await.ok(),
            });
        let nodes = join_all(calls).await;
        let mut sum = ClusterCounters::default();
        for (at, (address, node)) in addresses.into_iter().zip(nodes).enumerate() {
            let Some(node) = node else {
                sum.silent.push(address.clone());
                continue;
            };
            let added = match at < stores.len() {
                true => sum.add_store(&node),
                false => sum.add_alloc(&node),
            };
            added.with_context(|| format!("the process at {address} runs another build"))?;
        }
        Ok(sum)
    }

    fn add_alloc(&mut self, alloc: &NodeStatusResponse) -> anyhow::Result<()> {
        self.numbers_issued += counter(alloc, "numbers_issued")?;
        self.raises += counter(alloc, "raises")?;
        self.window_waits += counter(alloc, "window_waits")?;
        self.forwarded += counter(alloc, "forwarded")?;
        Ok(())
    }

    fn add_store(&mut self, store: &NodeStatusResponse) -> anyhow::Result<()> {
        self.raise_entries += counter(store, "proposer_raise_entries")?;
        self.fsyncs = self.fsyncs.max(counter(store, "raft_log_syncs")?);
        Ok(())
    }

    /// Adds the counters of another run.
    pub fn add(&mut self, other: &ClusterCounters) {
        self.numbers_issued += other.numbers_issued;
        self.raises += other.raises;
        self.raise_entries += other.raise_entries;
        self.fsyncs += other.fsyncs;
        self.window_waits += other.window_waits;
        self.forwarded += other.forwarded;
        self.add_silent(&other.silent);
    }

    /// Returns the increase since `before`. A process that was restarted counts from 0; one that
    /// did not answer at either time is silent.
    pub(crate) fn increase_since(mut self, before: &ClusterCounters) -> ClusterCounters {
        self.add_silent(&before.silent);
        ClusterCounters {
            numbers_issued: self.numbers_issued.saturating_sub(before.numbers_issued),
            raises: self.raises.saturating_sub(before.raises),
            raise_entries: self.raise_entries.saturating_sub(before.raise_entries),
            fsyncs: self.fsyncs.saturating_sub(before.fsyncs),
            window_waits: self.window_waits.saturating_sub(before.window_waits),
            forwarded: self.forwarded.saturating_sub(before.forwarded),
            silent: self.silent,
        }
    }

    fn add_silent(&mut self, more: &[String]) {
        self.silent.extend_from_slice(more);
        self.silent.sort();
        self.silent.dedup();
    }
}

fn counter(node: &NodeStatusResponse, name: &str) -> anyhow::Result<u64> {
    let value = node.counters.get(name).copied();
    value.with_context(|| format!("it has no counter {name}; use the bench of its build"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(counters: &[(&str, u64)]) -> NodeStatusResponse {
        NodeStatusResponse {
            counters: counters
                .iter()
                .map(|(name, value)| ((*name).to_owned(), *value))
                .collect(),
            ..NodeStatusResponse::default()
        }
    }

    #[test]
    fn missing_counter_is_an_error_and_never_zero() {
        let mut sum = ClusterCounters::default();
        let whole = [
            ("numbers_issued", 9),
            ("raises", 3),
            ("window_waits", 0),
            ("forwarded", 1),
        ];
        sum.add_alloc(&node(&whole)).unwrap();
        assert_eq!((sum.numbers_issued, sum.raises, sum.forwarded), (9, 3, 1));
        for missing in 0..whole.len() {
            let mut rest = whole.to_vec();
            let (name, _) = rest.remove(missing);
            let error = ClusterCounters::default().add_alloc(&node(&rest));
            let text = error.unwrap_err().to_string();
            assert!(text.contains(name), "{text}");
        }
        let store = node(&[("proposer_raise_entries", 2)]);
        let error = sum.add_store(&store).unwrap_err().to_string();
        assert!(error.contains("raft_log_syncs"), "{error}");
    }

    #[test]
    fn process_that_was_silent_at_one_time_is_silent_in_the_increase() {
        let silent = |address: &str| ClusterCounters {
            raises: 5,
            silent: vec![address.to_owned()],
            ..ClusterCounters::default()
        };
        let increase = silent("b:1").increase_since(&silent("a:1"));
        assert_eq!(
            (increase.raises, increase.silent),
            (0, vec!["a:1".to_owned(), "b:1".to_owned()])
        );
    }
}
