//! The rule that decides the cluster of a client from the answers of its configured servers.
//!
//! Invariant: a client never takes the cluster of the server that answers first while another one
//! contradicts it. Schedule that breaks it: a backup is restored on two hosts, and each cluster has
//! an AllocSvr. A caller has both addresses. At one start the first one answers first, at the next
//! start the other one, and both give the same numbers.
//!
//! The addresses of a client are hints where to begin, so fewer than half decide as well, if all
//! others are silent. At an AllocSvr that is different: see ADR 0027.

use seqsvr_core::ids::ClusterId;

/// Clusters that the servers named so far.
pub(crate) struct ClusterAnswers {
    server_count: usize,
    named: Vec<(String, ClusterId)>,
}

impl ClusterAnswers {
    /// Starts to count the answers of this many servers.
    pub(crate) fn new(server_count: usize) -> ClusterAnswers {
        ClusterAnswers {
            server_count,
            named: Vec::new(),
        }
    }

    /// Records the cluster of a server.
    ///
    /// # Errors
    /// Another server named another cluster. The text has all of them.
    pub(crate) fn record(&mut self, address: &str, cluster: ClusterId) -> Result<(), String> {
        self.named.push((address.to_owned(), cluster));
        if self.named.iter().all(|(_, named)| *named == cluster) {
            return Ok(());
        }
        let lines = self.named.iter();
        let lines = lines.map(|(address, cluster)| format!("{address} -> cluster {cluster}"));
        let mut lines = Vec::from_iter(lines);
        lines.sort();
        Err(format!(
            "the servers belong to different clusters, which may give the same numbers ({}); give the addresses of one cluster, and keep only one cluster of a backup",
            lines.join(", ")
        ))
    }

    /// Returns the cluster that the servers named, if one did.
    pub(crate) fn cluster(&self) -> Option<ClusterId> {
        self.named.first().map(|(_, cluster)| *cluster)
    }

    /// Returns whether more than half of the servers named their cluster.
    pub(crate) fn has_majority(&self) -> bool {
        2 * self.named.len() > self.server_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradiction_is_an_error_that_names_each_server() {
        let mut answers = ClusterAnswers::new(3);
        answers.record("a:1", ClusterId(1)).expect("the first");
        assert!(!answers.has_majority());
        let text = answers.record("b:1", ClusterId(2)).unwrap_err();
        for (address, cluster) in [("a:1", ClusterId(1)), ("b:1", ClusterId(2))] {
            let line = format!("{address} -> cluster {cluster}");
            assert!(text.contains(&line), "{text}");
        }
    }

    #[test]
    fn more_than_half_of_the_servers_are_a_majority() {
        for (server_count, needed) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
            let mut answers = ClusterAnswers::new(server_count);
            for n in 1..=needed {
                assert!(!answers.has_majority());
                let recorded = answers.record(&format!("a:{n}"), ClusterId(1));
                recorded.expect("one cluster");
            }
            assert!(answers.has_majority());
            assert_eq!(answers.cluster(), Some(ClusterId(1)));
        }
    }
}
