//! The rows of the state, the unit in which it is stored and snapshotted.
//!
//! Row kinds and fields are persisted: never reorder or remove variants and fields. A new format is
//! a new version of the stored values (see the `raft` crate).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::State;
use crate::ids::{ClusterId, Epoch, Generation, NamespaceId, Nonce, SectionKey, SessionId, Slot};
use crate::namespace::Namespace;

/// The cluster itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRow {
    /// Random id, fixed at `init`.
    pub id: ClusterId,
    /// Lease D, milliseconds.
    pub lease_ms: u32,
    /// Number of slots.
    pub slots: u32,
    /// Version of the routing table; grows with every change that clients can see.
    pub table_version: u64,
    /// Next session id.
    pub next_session: u64,
    /// Next namespace id.
    pub next_namespace: u32,
}

/// Format level of the cluster, and what exists from level 2 on. A state without this row is at
/// level 1; a row of its own keeps the bytes of a level-1 cluster row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatRow {
    /// Format level; never falls.
    pub level: u32,
    /// Lowest store id that no member ever had; never falls.
    pub next_store: u64,
}

/// Durable truth of one section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionRow {
    /// Upper bound of every cur_seq in the section.
    pub max_seq: u64,
    /// Last generation begun.
    pub generation: Generation,
    /// max_seq when that generation began.
    pub base: u64,
    /// Nonce of the `Open` that began it.
    pub nonce: Nonce,
    /// Whether that generation is still open.
    pub open: bool,
    /// Numbers unforced `RaiseTo`s have jumped over so far.
    pub raised: u64,
}

impl SectionRow {
    /// Ends the generation; its owner reports that no number above `value` was handed out.
    pub(super) fn close(&mut self, value: u64) {
        debug_assert!(
            self.base <= self.max_seq,
            "a window never lies below its base"
        );
        self.max_seq = value.clamp(self.base, self.max_seq);
        self.open = false;
    }
}

/// Owner of a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRow {
    /// Fencing token.
    pub epoch: Epoch,
    /// Owner; None: free.
    pub owner: Option<SessionId>,
    /// Table version of the last change.
    pub version: u64,
}

/// One AllocSvr process's registration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRow {
    /// Name given by the operator.
    pub name: String,
    /// Address at which clients reach it.
    pub address: String,
    /// Random number of the process.
    pub incarnation: u64,
    /// Nonce of its opening; proves it.
    pub nonce: Nonce,
}

/// Name of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum RowKey {
    /// The only cluster row.
    Cluster,
    /// A namespace.
    Namespace(NamespaceId),
    /// A section.
    Section(SectionKey),
    /// A slot.
    Slot(Slot),
    /// A session.
    Session(SessionId),
    /// The only format row; it exists from level 2 on.
    Format,
}

/// Content of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StateRow {
    /// Row of [`RowKey::Cluster`].
    Cluster(ClusterRow),
    /// Row of [`RowKey::Namespace`].
    Namespace(Namespace),
    /// Row of [`RowKey::Section`].
    Section(SectionRow),
    /// Row of [`RowKey::Slot`].
    Slot(SlotRow),
    /// Row of [`RowKey::Session`].
    Session(SessionRow),
    /// Row of [`RowKey::Format`].
    Format(FormatRow),
}

impl StateRow {
    /// Returns the format level that introduced this kind of row.
    pub fn level(&self) -> u32 {
        match self {
            StateRow::Cluster(_)
            | StateRow::Namespace(_)
            | StateRow::Section(_)
            | StateRow::Slot(_)
            | StateRow::Session(_) => 1,
            StateRow::Format(_) => 2,
        }
    }
}

impl State {
    /// Returns a row's present content; None if there is none (a session that ended).
    pub fn row(&self, key: RowKey) -> Option<StateRow> {
        match key {
            RowKey::Cluster => self.cluster.clone().map(StateRow::Cluster),
            RowKey::Namespace(id) => self.namespaces.get(&id).cloned().map(StateRow::Namespace),
            RowKey::Section(key) => self.sections.get(&key).cloned().map(StateRow::Section),
            RowKey::Slot(slot) => self
                .slots
                .get(usize::from(slot.0))
                .cloned()
                .map(StateRow::Slot),
            RowKey::Session(id) => self.sessions.get(&id).cloned().map(StateRow::Session),
            RowKey::Format => self.format.map(StateRow::Format),
        }
    }

    /// Returns the number of rows. Constant time.
    pub fn rows_len(&self) -> u64 {
        let others = self.namespaces.len() + self.slots.len() + self.sessions.len();
        let single = usize::from(self.cluster.is_some()) + usize::from(self.format.is_some());
        self.sections_known() + (others + single) as u64
    }

    /// Returns all rows, in a fixed order.
    pub fn rows(&self) -> impl Iterator<Item = (RowKey, StateRow)> + '_ {
        let cluster = self
            .cluster
            .iter()
            .map(|c| (RowKey::Cluster, StateRow::Cluster(c.clone())));
        let namespaces = self
            .namespaces
            .iter()
            .map(|(id, n)| (RowKey::Namespace(*id), StateRow::Namespace(n.clone())));
        let sections = self
            .sections
            .iter()
            .map(|(key, s)| (RowKey::Section(*key), StateRow::Section(s.clone())));
        let slots = self
            .slots
            .iter()
            .enumerate()
            .map(|(i, s)| (RowKey::Slot(Slot(i as u16)), StateRow::Slot(s.clone())));
        let sessions = self
            .sessions
            .iter()
            .map(|(id, s)| (RowKey::Session(*id), StateRow::Session(s.clone())));
        let format = self.format.map(|f| (RowKey::Format, StateRow::Format(f)));
        cluster
            .chain(namespaces)
            .chain(sections)
            .chain(slots)
            .chain(sessions)
            .chain(format)
    }

    /// Rebuilds a state from its rows, in any order; None if a row does not fit its key or a slot
    /// lies outside the cluster.
    pub fn from_rows(rows: impl IntoIterator<Item = (RowKey, StateRow)>) -> Option<State> {
        let mut builder = StateBuilder::default();
        rows.into_iter()
            .for_each(|(key, row)| builder.add(key, row));
        builder.finish()
    }
}

/// Builder of a state from rows that come one by one, in any order.
#[derive(Debug, Default)]
pub struct StateBuilder {
    state: State,
    slots: BTreeMap<Slot, SlotRow>,
    /// Whether a row did not fit its key.
    misfit: bool,
}

impl StateBuilder {
    /// Adds a row.
    pub fn add(&mut self, key: RowKey, row: StateRow) {
        let state = &mut self.state;
        match (key, row) {
            (RowKey::Cluster, StateRow::Cluster(c)) => state.cluster = Some(c),
            (RowKey::Namespace(id), StateRow::Namespace(n)) => drop(state.namespaces.insert(id, n)),
            (RowKey::Section(key), StateRow::Section(s)) => state.sections.insert(key, s),
            (RowKey::Slot(slot), StateRow::Slot(s)) => drop(self.slots.insert(slot, s)),
            (RowKey::Session(id), StateRow::Session(s)) => drop(state.sessions.insert(id, s)),
            (RowKey::Format, StateRow::Format(f)) => state.format = Some(f),
            _ => self.misfit = true,
        }
    }

    /// Returns the state; None if a row did not fit its key or a slot lies outside the cluster.
    pub fn finish(self) -> Option<State> {
        let (mut state, slots) = (self.state, self.slots);
        let count = state.cluster.as_ref().map_or(0, |c| c.slots as usize);
        let dense = slots
            .keys()
            .enumerate()
            .all(|(i, slot)| usize::from(slot.0) == i);
        if self.misfit || slots.len() != count || !dense {
            return None;
        }
        state.slots = slots.into_values().collect();
        Some(state)
    }
}
