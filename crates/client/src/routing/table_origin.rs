//! Which server sent the routing table in use, and whether a second one stands for it.
//!
//! Invariant: a version that two servers have sent is never left for a lower one. A version that
//! one server alone has sent is left once calls have contradicted it [`CONTRADICTIONS_MAX`] times
//! and another server has sent another whole table.
//!
//! Schedules that break it, and what prevents each:
//! - *A false table is kept.* One AllocSvr sends a table with a version little above the true one
//!   that names it as the owner of every slot, and goes away. All true tables are older. Every call
//!   tries that owner first, or another server that forwards it, for as long as the client lives.
//! - *A true table is left for an old one.* An owner dies, so two calls fail. The server that gets
//!   the request for the table was cut off and has an old one. Routes are hints: each call still
//!   carries the epoch seen, so no former owner answers it, and the next newer table is applied as
//!   any other.
//! - *An old copy of a cluster is put back.* Two servers have sent the versions that are lost, so
//!   the client keeps its table, and with it the epochs that prove the loss.

use seqsvr_core::routing_table::RoutingDelta;

/// Contradictions after which a table that one server alone has sent is doubted.
const CONTRADICTIONS_MAX: u32 = 2;

/// Origin of the table in use.
#[derive(Default)]
pub(crate) struct TableOrigin {
    /// Server that sent the newest version in use.
    claimant: String,
    /// Greatest version that two servers have sent.
    confirmed: u64,
    /// Contradictions since this version is in use or was doubted last.
    contradictions: u32,
    /// The next whole table of another server is taken, unless its version is below `confirmed`.
    is_doubted: bool,
}

impl TableOrigin {
    /// Returns the server that sent the newest version in use.
    pub(crate) fn claimant(&self) -> &str {
        &self.claimant
    }

    /// Returns the claimant, if the table is doubted.
    pub(crate) fn doubted_server(&self) -> Option<String> {
        self.is_doubted.then(|| self.claimant.clone())
    }

    /// Counts a contradiction of the table of this version. Returns whether to fetch the whole
    /// table from another server now.
    pub(crate) fn record_contradiction(&mut self, version: u64) -> bool {
        if version <= self.confirmed {
            return false;
        }
        self.contradictions += 1;
        if self.contradictions < CONTRADICTIONS_MAX {
            return false;
        }
        self.contradictions = 0;
        self.is_doubted = true;
        true
    }

    /// Returns whether a table from the server at `address` takes the place of the one in use,
    /// whichever version is higher.
    pub(crate) fn may_replace(&self, address: &str, ours: u64, sent: &RoutingDelta) -> bool {
        let is_other = address != self.claimant && ours > self.confirmed;
        self.is_doubted && is_other && sent.base == 0 && sent.version >= self.confirmed
    }

    /// Ends the doubt, because another server has sent its table: the same as ours, or another one.
    pub(crate) fn settle(&mut self, address: &str, ours: u64, is_same: bool) {
        self.is_doubted = false;
        self.contradictions = 0;
        match is_same {
            true => self.confirmed = ours,
            // What the former claimant alone has sent is confirmed by no server.
            false => self.claimant = address.to_owned(),
        }
    }

    /// Records that a table from the server at `address` is in use now. `previous` is the version
    /// before it; a server that builds on it stands for it.
    pub(crate) fn record_applied(&mut self, address: &str, previous: u64) {
        if self.claimant != address {
            self.confirmed = self.confirmed.max(previous);
            address.clone_into(&mut self.claimant);
        }
        self.contradictions = 0;
        self.is_doubted = false;
    }
}
