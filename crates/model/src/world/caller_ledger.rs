//! What callers have seen, from which the promises are judged.
//!
//! Invariant: a number counts for the cluster of the caller that received it, and not for that of
//! the server that gave it. A caller that meets a server of another cluster would otherwise be
//! judged as a caller of that one.

/// Clusters that can follow one another at the same addresses.
const CLUSTERS_MAX: usize = 2;

/// Values that the callers of one cluster have seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CallerLedger {
    /// Numbers that were handed out, one bit each.
    pub(crate) numbers: u64,
    /// The greatest value that an answered call has shown.
    pub(crate) highest_shown: u8,
    /// The highest value that any counter reached.
    pub(crate) highest_counter: u8,
    /// Whether a number was handed out twice.
    pub(crate) has_duplicate: bool,
    /// Whether a call that began after the answer to another got no greater number.
    pub(crate) has_disorder: bool,
    /// Whether a planned move left max_seq above the highest number that was used.
    pub(crate) has_excess: bool,
}

impl CallerLedger {
    /// Records that a caller receives a number as its next one.
    pub(crate) fn record_number(&mut self, number: u8, floor: u8) {
        self.has_duplicate |= self.has_number(number);
        self.numbers |= 1 << number;
        self.has_disorder |= number <= floor;
    }

    /// Returns whether the number was handed out.
    pub(crate) fn has_number(&self, number: u8) -> bool {
        self.numbers & 1 << number != 0
    }
}

/// The ledgers of all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClusterLedgers([CallerLedger; CLUSTERS_MAX]);

impl ClusterLedgers {
    /// Returns the ledger of a cluster. Clusters count from 1.
    pub(crate) fn of_cluster(&self, cluster: u8) -> &CallerLedger {
        &self.0[usize::from(cluster) - 1]
    }

    /// Returns the ledger of a cluster, to write in.
    pub(crate) fn of_cluster_mut(&mut self, cluster: u8) -> &mut CallerLedger {
        &mut self.0[usize::from(cluster) - 1]
    }

    /// Returns whether the condition holds for the callers of any cluster.
    pub(crate) fn has_any(&self, condition: impl Fn(&CallerLedger) -> bool) -> bool {
        self.0.iter().any(condition)
    }
}
