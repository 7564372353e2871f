//! The rows of the state, the unit in which it is stored and snapshotted.
//!
//! Row kinds and fields are persisted: never reorder or remove variants and fields. A new format is
//! a new version of the stored values (see the `raft` crate).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::State;
use crate::family::{Family, FamilySpec};
use crate::ids::{
    ClusterId, Epoch, FamilyId, Generation, NamespaceId, Nonce, SectionKey, SessionId, Slot,
    WorkerEpoch, WorkerId, WorkerKey,
};
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

/// A family of ids, and what bounds its grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FamilyRow {
    /// The family as clients see it.
    pub family: Family,
    /// First tick that a grant may begin at; never falls.
    pub floor: u64,
    /// Least worker that was never granted and is not reserved; above the last worker if there is
    /// none. Never falls.
    pub next_fresh: WorkerId,
    /// Epoch above which each worker begins; raised by a restore only.
    pub epoch_floor: WorkerEpoch,
}

/// A worker that was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRow {
    /// Fencing token.
    pub epoch: WorkerEpoch,
    /// Name of the holder, or of the last one.
    pub holder: String,
    /// Whether the holder has neither released the worker nor lost it.
    pub is_held: bool,
    /// Nonce of its acquisition.
    pub nonce: Nonce,
    /// Lane of the present grant.
    pub lane: u32,
    /// First tick never granted, of each lane.
    pub untils: Vec<u64>,
    /// First tick of the present grant.
    pub base: u64,
    /// Store time at which it was acquired.
    pub taken_ms: u64,
}

impl WorkerRow {
    /// Returns whether the row has the lane that it names.
    fn has_lane(&self) -> bool {
        (self.lane as usize) < self.untils.len()
    }

    /// Returns the first tick that was never granted of a lane.
    pub fn until_of(&self, lane: usize) -> u64 {
        self.untils.get(lane).copied().unwrap_or(u64::MAX)
    }

    /// Returns the first tick after the present grant.
    pub fn until(&self) -> u64 {
        self.until_of(self.lane as usize)
    }

    /// Returns the lane on which the worker can continue although its present one is in front of
    /// store time.
    pub fn other_lane(&self, spec: &FamilySpec, now: u64) -> Option<usize> {
        let present = self.lane as usize;
        if spec.lanes_once {
            return Some(present + 1).filter(|lane| *lane < spec.lanes());
        }
        let passed = |lane: &usize| *lane != present && self.until_of(*lane) <= now;
        let lanes = (0..spec.lanes()).filter(passed);
        lanes.min_by_key(|lane| self.until_of(*lane))
    }

    /// Sets the first tick after the present grant.
    pub(super) fn set_until(&mut self, until: u64) {
        if let Some(stored) = self.untils.get_mut(self.lane as usize) {
            *stored = until;
        }
    }
}

/// Store time: the cluster's time, which falls only by a set-back of an administrator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeRow {
    /// Unix time in milliseconds.
    pub high_ms: u64,
    /// Number of times it was set.
    pub resets: u64,
    /// Unix time in milliseconds before which a new family grants no tick; raised by a restore
    /// only.
    pub families_from_ms: u64,
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
    /// A family of ids.
    Family(FamilyId),
    /// A worker that was granted.
    Worker(WorkerKey),
    /// The only time row; it exists once store time was set.
    Time,
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
    /// Row of [`RowKey::Family`].
    Family(FamilyRow),
    /// Row of [`RowKey::Worker`].
    Worker(WorkerRow),
    /// Row of [`RowKey::Time`].
    Time(TimeRow),
}

impl StateRow {
    /// Returns the format level that introduced this row.
    pub fn level(&self) -> u32 {
        match self {
            StateRow::Cluster(_)
            | StateRow::Namespace(_)
            | StateRow::Section(_)
            | StateRow::Slot(_)
            | StateRow::Session(_) => 1,
            StateRow::Format(format) => format.level.max(2),
            StateRow::Family(_) | StateRow::Worker(_) | StateRow::Time(_) => 3,
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
            RowKey::Family(id) => self.families.get(&id).cloned().map(StateRow::Family),
            RowKey::Worker(key) => self.workers.get(&key).cloned().map(StateRow::Worker),
            RowKey::Time => self.time.map(StateRow::Time),
        }
    }

    /// Returns the number of rows. Constant time.
    pub fn rows_len(&self) -> u64 {
        let others = self.namespaces.len() + self.slots.len() + self.sessions.len();
        let ids = self.families.len() + self.workers.len() + usize::from(self.time.is_some());
        let single = usize::from(self.cluster.is_some()) + usize::from(self.format.is_some());
        self.sections_known() + (others + ids + single) as u64
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
        let families = self
            .families
            .iter()
            .map(|(id, f)| (RowKey::Family(*id), StateRow::Family(f.clone())));
        let workers = self
            .workers
            .iter()
            .map(|(key, w)| (RowKey::Worker(*key), StateRow::Worker(w.clone())));
        let time = self.time.map(|t| (RowKey::Time, StateRow::Time(t)));
        cluster
            .chain(namespaces)
            .chain(sections)
            .chain(slots)
            .chain(sessions)
            .chain(format)
            .chain(families)
            .chain(workers)
            .chain(time)
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
            (RowKey::Family(id), StateRow::Family(f)) => drop(state.families.insert(id, f)),
            (RowKey::Worker(key), StateRow::Worker(w)) if w.has_lane() => {
                state.workers.insert(key, w);
            }
            (RowKey::Time, StateRow::Time(t)) => state.time = Some(t),
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
