//! The replicated state: the durable truth of a cluster, pure and deterministic.
//!
//! Laid out as rows (cluster, namespaces, sections, slots, sessions) so that the disk below can
//! store exactly the rows that a batch touched. Invariants kept by `apply`:
//! - a section's max_seq falls only by a high-water mark of the section's current, open generation
//!   sent by the slot's owner, and never below that generation's base;
//! - generation and epoch never fall; (slot, epoch) names one session permanently;
//! - no number above a generation's base was ever given to an older generation, unless that
//!   generation handed it back by its true high-water mark;
//! - a tick of a lane of a worker is granted to one worker epoch only, permanently (`families`).

mod apply;
mod families;
mod format_level;
pub mod namespace_growth;
mod namespaces;
mod paged_map;
pub mod restore;
mod rows;
mod section_rows;
mod sections;
mod sessions;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use families::WorkerRows;
pub use format_level::FORMAT_LEVEL_MAX;
pub use paged_map::PagedMap;
pub use rows::{
    ClusterRow, FamilyRow, FormatRow, RowKey, SectionRow, SessionRow, SlotRow, StateBuilder,
    StateRow, TimeRow, WorkerRow,
};
use section_rows::SectionRows;

use crate::geometry::slot_of;
use crate::ids::{FamilyId, NamespaceId, SectionKey, SessionId, Slot};
use crate::namespace::Namespace;
use crate::routing_table::{Route, RoutingDelta, SlotOwner};

/// The replicated state of one Set. A copy shares the pages of the sections, so the time to make it
/// hardly depends on their number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    cluster: Option<ClusterRow>,
    namespaces: BTreeMap<NamespaceId, Namespace>,
    sections: SectionRows,
    slots: Vec<SlotRow>,
    sessions: BTreeMap<SessionId, SessionRow>,
    /// The format row; None: level 1.
    format: Option<FormatRow>,
    families: BTreeMap<FamilyId, FamilyRow>,
    workers: WorkerRows,
    /// The time row; None: store time was never set.
    time: Option<TimeRow>,
}

impl State {
    /// Returns the cluster row; None before `Init`.
    pub fn cluster(&self) -> Option<&ClusterRow> {
        self.cluster.as_ref()
    }

    /// Returns lease D; None before `Init`.
    pub fn lease(&self) -> Option<Duration> {
        self.cluster
            .as_ref()
            .map(|c| Duration::from_millis(u64::from(c.lease_ms)))
    }

    /// Returns the version of the routing table; 0 before `Init`.
    pub fn table_version(&self) -> u64 {
        self.cluster.as_ref().map_or(0, |c| c.table_version)
    }

    /// Returns all namespaces by id.
    pub fn namespaces(&self) -> impl Iterator<Item = &Namespace> {
        self.namespaces.values()
    }

    /// Returns a namespace by id.
    pub fn namespace(&self, id: NamespaceId) -> Option<&Namespace> {
        self.namespaces.get(&id)
    }

    /// Returns a namespace by name.
    pub fn find_namespace(&self, name: &str) -> Option<&Namespace> {
        self.namespaces.values().find(|n| n.spec.name == name)
    }

    /// Returns a section's row; None if it was never opened.
    pub fn section(&self, key: SectionKey) -> Option<&SectionRow> {
        self.sections.get(&key)
    }

    /// Returns all sections ever opened.
    pub fn sections(&self) -> impl Iterator<Item = (&SectionKey, &SectionRow)> {
        self.sections.iter()
    }

    /// Returns the number of sections ever opened. Constant time.
    pub fn sections_known(&self) -> u64 {
        self.sections.len() as u64
    }

    /// Returns the number of open sections. Constant time.
    pub fn sections_open(&self) -> u64 {
        self.sections.open()
    }

    /// Returns all slots in order.
    pub fn slots(&self) -> &[SlotRow] {
        &self.slots
    }

    /// Returns all sessions by id.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, &SessionRow)> {
        self.sessions.iter().map(|(id, s)| (*id, s))
    }

    /// Returns a session by id.
    pub fn session(&self, id: SessionId) -> Option<&SessionRow> {
        self.sessions.get(&id)
    }

    /// Returns the session living under a name.
    pub fn find_session(&self, name: &str) -> Option<(SessionId, &SessionRow)> {
        self.sessions().find(|(_, s)| s.name == name)
    }

    /// Returns the slot that a section maps to; None before `Init`.
    pub fn slot_of(&self, key: SectionKey) -> Option<Slot> {
        self.cluster.as_ref().map(|c| slot_of(key, c.slots))
    }

    /// Returns what a routing table of version `base` misses; the full table if `base` is 0 or
    /// above the present version (a table from before the cluster was created again).
    pub fn delta_since(&self, base: u64) -> Option<RoutingDelta> {
        let cluster = self.cluster.as_ref()?;
        let base = if base > cluster.table_version {
            0
        } else {
            base
        };
        let slots = self
            .slots
            .iter()
            .enumerate()
            .filter(|(_, row)| base == 0 || row.version > base);
        Some(RoutingDelta {
            cluster: cluster.id,
            base,
            version: cluster.table_version,
            slot_count: cluster.slots,
            namespaces: self
                .namespaces
                .values()
                .filter(|n| n.version > base)
                .cloned()
                .collect(),
            families: self
                .families
                .values()
                .filter(|row| row.family.version > base)
                .map(|row| row.family.clone())
                .collect(),
            routes: slots
                .map(|(i, row)| (Slot(i as u16), self.route(row)))
                .collect(),
        })
    }

    fn route(&self, row: &SlotRow) -> Route {
        let owner = row.owner.and_then(|id| {
            let session = self.sessions.get(&id)?;
            Some(SlotOwner {
                session: id,
                name: session.name.clone(),
                address: session.address.clone(),
            })
        });
        Route {
            epoch: row.epoch,
            owner,
            version: row.version,
        }
    }
}
