//! The rule that decides the cluster of an AllocSvr from the answers of its stores.
//!
//! Invariant and schedules: see `own_cluster.rs`. The rule is about configured stores only: a list
//! of members that a store sends would let a store of another cluster decide alone.
//!
//! A store that belongs to no cluster yet cannot belong to another one, so it is not counted. That
//! is a new store before `init` or `member add`.

use std::collections::BTreeSet;
use std::path::PathBuf;

use seqsvr_core::ids::ClusterId;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;

/// Answer of one store to the question for its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreCluster {
    /// It has neither answered nor failed yet.
    Pending,
    /// It belongs to this cluster.
    Named(ClusterId),
    /// It belongs to no cluster yet.
    NotInitialized,
    /// It cannot be reached, or did not answer in time. The cause is a text of this process.
    Silent(String),
}

/// Cluster that one store is enough for, and where it is from.
#[derive(Clone, Debug)]
pub(crate) enum ExpectedCluster {
    /// The state directory records it.
    StateDir(ClusterId, PathBuf),
    /// The operator named it with `--join-cluster`.
    Flag(ClusterId),
}

impl ExpectedCluster {
    fn id(&self) -> ClusterId {
        match self {
            ExpectedCluster::StateDir(id, _) | ExpectedCluster::Flag(id) => *id,
        }
    }
}

/// Last answer of each configured store.
pub(crate) struct ClusterVotes {
    stores: Vec<(String, StoreCluster)>,
    expected: Option<ExpectedCluster>,
}

impl ClusterVotes {
    pub(crate) fn new(addresses: &[String], expected: Option<ExpectedCluster>) -> ClusterVotes {
        let mut stores: Vec<(String, StoreCluster)> = Vec::new();
        for address in addresses {
            if stores.iter().all(|(known, _)| known != address) {
                stores.push((address.clone(), StoreCluster::Pending));
            }
        }
        ClusterVotes { stores, expected }
    }

    /// Returns the stores, each once.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = &String> {
        self.stores.iter().map(|(address, _)| address)
    }

    /// Records the answer of a store in place of its last one.
    pub(crate) fn record(&mut self, address: &str, answer: StoreCluster) {
        if let Some((_, last)) = self.stores.iter_mut().find(|(known, _)| known == address) {
            *last = answer;
        }
    }

    /// Returns whether each store has answered, or cannot be reached.
    pub(crate) fn is_complete(&self) -> bool {
        let mut answers = self.stores.iter().map(|(_, answer)| answer);
        answers.all(|answer| *answer != StoreCluster::Pending)
    }

    /// Checks that the stores, the state directory and the operator name one cluster.
    ///
    /// # Errors
    /// They do not. The text has a line for each store.
    pub(crate) fn check(&self) -> Result<(), String> {
        let named = self.named_clusters();
        let text = match (&self.expected, Vec::from_iter(&named).as_slice()) {
            (_, [_, _, ..]) => String::from(
                "the stores belong to different clusters, which may give the same numbers: a backup was restored more than once, or --stores names a store of another cluster; correct --stores so that it names the stores of one cluster, and keep only one cluster of a backup",
            ),
            (Some(ExpectedCluster::StateDir(own, dir)), [other]) if own != *other => format!(
                "the state directory {} is of cluster {own}, and the stores belong to another, which may give the same numbers; correct --stores, or, if cluster {own} is gone permanently, start this AllocSvr once with --join-cluster {other}",
                dir.display()
            ),
            (Some(ExpectedCluster::Flag(own)), [other]) if own != *other => format!(
                "--join-cluster names cluster {own}, and the stores belong to another; correct --join-cluster or --stores"
            ),
            _ => return Ok(()),
        };
        let lines = self
            .stores
            .iter()
            .map(|store| format!("\n  {}", line(store)));
        Err(text + &lines.collect::<String>())
    }

    /// Returns the cluster, if the answers decide it. [`ClusterVotes::check`] comes first.
    pub(crate) fn decided(&self) -> Option<ClusterId> {
        let cluster = self.named_clusters().into_iter().next()?;
        if self.expected.as_ref().map(ExpectedCluster::id) == Some(cluster) {
            return Some(cluster);
        }
        (2 * self.count_named() > self.count_countable()).then_some(cluster)
    }

    /// Returns the first store that named its cluster.
    pub(crate) fn first_named(&self) -> Option<&str> {
        let mut stores = self.stores.iter();
        let named = stores.find(|(_, answer)| matches!(answer, StoreCluster::Named(_)));
        named.map(|(address, _)| address.as_str())
    }

    /// Returns why the answers decide nothing, and what to do.
    pub(crate) fn undecided_error(&self) -> RpcError {
        let stores: Vec<String> = self.stores.iter().map(line).collect();
        let stores = stores.join(", ");
        let named = self.named_clusters().into_iter().next();
        match named {
            Some(cluster) => RpcError::new(
                Reason::Unreachable,
                format!(
                    "the cluster of this AllocSvr is not decided: {} of {} stores names one, and more than half must ({stores}); start the silent stores, correct --stores, or start this AllocSvr once with --join-cluster {cluster}",
                    self.count_named(),
                    self.count_countable()
                ),
            ),
            None if self.count_countable() == 0 => RpcError::new(
                Reason::NotInitialized,
                format!(
                    "the stores belong to no cluster yet ({stores}): run `seqsvr init --stores ...` once, naming every store"
                ),
            ),
            None => RpcError::new(
                Reason::Unreachable,
                format!(
                    "no store names its cluster ({stores}); start the stores, or correct --stores"
                ),
            ),
        }
    }

    fn named_clusters(&self) -> BTreeSet<ClusterId> {
        let named = self.stores.iter().filter_map(|(_, answer)| match answer {
            StoreCluster::Named(cluster) => Some(*cluster),
            _ => None,
        });
        named.collect()
    }

    fn count_named(&self) -> usize {
        let answers = self.stores.iter();
        let named = answers.filter(|(_, answer)| matches!(answer, StoreCluster::Named(_)));
        named.count()
    }

    /// Counts the stores that belong to a cluster, or may.
    fn count_countable(&self) -> usize {
        let answers = self.stores.iter();
        let countable = answers.filter(|(_, answer)| *answer != StoreCluster::NotInitialized);
        countable.count()
    }
}

/// Returns what is known of a store, without a text of others.
fn line((address, answer): &(String, StoreCluster)) -> String {
    match answer {
        StoreCluster::Pending => format!("{address} -> no answer yet"),
        StoreCluster::Named(cluster) => format!("{address} -> cluster {cluster}"),
        StoreCluster::NotInitialized => format!("{address} -> no cluster yet"),
        StoreCluster::Silent(cause) => format!("{address} -> no answer: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: ClusterId = ClusterId(1);
    const TWO: ClusterId = ClusterId(2);

    fn silent() -> StoreCluster {
        StoreCluster::Silent("connection refused".into())
    }

    fn votes(answers: &[StoreCluster], expected: Option<ExpectedCluster>) -> ClusterVotes {
        let addresses: Vec<String> = (1..=answers.len()).map(|i| format!("s{i}:1")).collect();
        let mut votes = ClusterVotes::new(&addresses, expected);
        for (address, answer) in addresses.iter().zip(answers) {
            votes.record(address, answer.clone());
        }
        votes
    }

    fn state_dir(cluster: ClusterId) -> Option<ExpectedCluster> {
        Some(ExpectedCluster::StateDir(cluster, "dir".into()))
    }

    #[test]
    fn more_than_half_of_the_stores_decide() {
        use StoreCluster::{Named, NotInitialized, Pending};
        let decided = |answers: &[StoreCluster]| {
            let votes = votes(answers, None);
            votes.check().expect("one cluster");
            votes.decided()
        };
        assert_eq!(decided(&[Named(ONE)]), Some(ONE));
        assert_eq!(decided(&[Named(ONE), silent()]), None, "half");
        assert_eq!(decided(&[Named(ONE), Pending, silent()]), None);
        assert_eq!(decided(&[Named(ONE), Named(ONE), Pending]), Some(ONE));
        assert_eq!(decided(&[NotInitialized, NotInitialized]), None);
        // A store without a cluster is of no other one, but a silent one may be.
        assert_eq!(
            decided(&[Named(ONE), NotInitialized, NotInitialized]),
            Some(ONE)
        );
        assert_eq!(decided(&[Named(ONE), NotInitialized, silent()]), None);
    }

    #[test]
    fn expected_cluster_and_one_store_decide() {
        for expected in [state_dir(ONE), Some(ExpectedCluster::Flag(ONE))] {
            let answers = [StoreCluster::Named(ONE), silent(), StoreCluster::Pending];
            let votes = votes(&answers, expected);
            votes.check().expect("one cluster");
            assert_eq!(votes.decided(), Some(ONE));
        }
    }

    #[test]
    fn stores_of_different_clusters_are_rejected_with_table() {
        use StoreCluster::Named;
        for expected in [None, state_dir(ONE), Some(ExpectedCluster::Flag(TWO))] {
            let answers = [Named(ONE), Named(ONE), Named(TWO), silent()];
            let text = votes(&answers, expected).check().unwrap_err();
            for part in [
                format!("\n  s2:1 -> cluster {ONE}"),
                format!("\n  s3:1 -> cluster {TWO}"),
                "\n  s4:1 -> no answer: connection refused".to_owned(),
                "--stores".to_owned(),
            ] {
                assert!(text.contains(&part), "{part:?} in {text}");
            }
        }
    }

    #[test]
    fn store_of_another_cluster_than_expected_is_rejected() {
        let answers = [silent(), StoreCluster::Named(TWO)];
        let text = votes(&answers, state_dir(ONE)).check().unwrap_err();
        for part in [format!("of cluster {ONE}"), format!("--join-cluster {TWO}")] {
            assert!(text.contains(&part), "{part:?} in {text}");
        }
        let flag = Some(ExpectedCluster::Flag(ONE));
        let text = votes(&answers, flag).check().unwrap_err();
        assert!(
            text.contains(&format!("--join-cluster names cluster {ONE}")),
            "{text}"
        );
    }

    #[test]
    fn undecided_error_names_silent_stores_and_the_cluster() {
        let waiting = votes(&[StoreCluster::Named(ONE), silent()], None).undecided_error();
        for part in [
            "1 of 2",
            "s2:1 -> no answer",
            &ONE.to_string(),
            "--join-cluster",
        ] {
            assert!(waiting.message.contains(part), "{part:?} in {waiting}");
        }
        let fresh = votes(&[StoreCluster::NotInitialized], None).undecided_error();
        assert_eq!(fresh.reason(), Reason::NotInitialized);
    }

    #[test]
    fn store_that_is_named_twice_counts_once() {
        let addresses = ["s1:1", "s1:1", "s2:1"].map(str::to_owned);
        let mut votes = ClusterVotes::new(&addresses, None);
        votes.record("s1:1", StoreCluster::Named(ONE));
        assert_eq!((votes.decided(), votes.is_complete()), (None, false));
    }
}
