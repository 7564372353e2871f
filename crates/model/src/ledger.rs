//! What callers have seen: the judge of the promise.
//!
//! Invariant: a number counts for the cluster of the caller that got it, and not for that of the
//! server that gave it. A caller that meets another cluster's server would otherwise be judged as a
//! caller of that one.

/// Clusters that can come one after another at the same addresses.
const CLUSTERS: usize = 2;

/// What the callers of one cluster have seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledger {
    /// Numbers handed out, one bit each.
    pub handed: u64,
    /// The greatest value that an answered call has shown.
    pub shown: u8,
    /// The highest value any counter reached.
    pub top: u8,
    /// A number was handed out twice.
    pub duplicate: bool,
    /// A call that began after another's answer got no greater number.
    pub disorder: bool,
    /// A planned move left max_seq above the highest number really used.
    pub loose: bool,
}

impl Ledger {
    /// A caller gets a number as its next one.
    pub fn hand(&mut self, number: u8, floor: u8) {
        self.duplicate |= self.handed & 1 << number != 0;
        self.handed |= 1 << number;
        self.disorder |= number <= floor;
    }
}

/// The ledgers of all clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ledgers([Ledger; CLUSTERS]);

impl Ledgers {
    /// The ledger of a cluster. Clusters count from 1.
    pub fn of(&self, cluster: u8) -> &Ledger {
        &self.0[usize::from(cluster) - 1]
    }

    /// The ledger of a cluster, to write in.
    pub fn of_mut(&mut self, cluster: u8) -> &mut Ledger {
        &mut self.0[usize::from(cluster) - 1]
    }

    /// Is this true of the callers of any cluster?
    pub fn any(&self, broken: impl Fn(&Ledger) -> bool) -> bool {
        self.0.iter().any(broken)
    }
}
