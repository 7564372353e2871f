//! 5: the state of a store is well-formed, and follows from every earlier one.

use seqsvr_core::SEQ_MAX;
use seqsvr_core::state::{Section, State};

use crate::cluster::{Cluster, name};

/// Looks between two checks of a store: it takes longer than the others.
const CHECKED_EVERY: u64 = 20;

/// Judge of states.
#[derive(Default)]
pub struct RowsJudge {
    looks: u64,
    /// The newest state that was checked, and its index.
    before: Option<(u64, State)>,
}

impl RowsJudge {
    /// Looks at the states of all stores. Returns the rule that is broken.
    pub fn look(&mut self, cluster: &Cluster) -> Option<String> {
        self.looks += 1;
        if !self.looks.is_multiple_of(CHECKED_EVERY) {
            return None;
        }
        for machine in cluster.machines.values() {
            let Some(store) = machine.store() else {
                continue;
            };
            let index = store.look().applied.map_or(0, |applied| applied.index);
            // Equal indexes have equal digests, which is rule 2.
            if self
                .before
                .as_ref()
                .is_some_and(|(known, _)| *known >= index)
            {
                continue;
            }
            let state = store.with_state(State::clone);
            let broken = check_shape(&state).or_else(|| {
                let (_, before) = self.before.as_ref()?;
                check_steps(before, &state)
            });
            self.before = Some((index, state));
            if let Some(broken) = broken {
                return Some(format!("5: {} at {index}: {broken}", name(machine.id)));
            }
        }
        None
    }
}

/// What holds in every state.
fn check_shape(state: &State) -> Option<String> {
    if State::from_rows(state.rows()).as_ref() != Some(state) {
        return Some(String::from("the rows are not the whole state"));
    }
    let next_session = state.cluster().map_or(0, |cluster| cluster.next_session);
    if let Some((id, _)) = state.sessions().find(|(id, _)| id.0 >= next_session) {
        return Some(format!("session {id} was not counted"));
    }
    let is_wide = |section: &Section| section.base <= section.max_seq && section.max_seq <= SEQ_MAX;
    let mut sections = state.sections();
    let (key, section) = sections.find(|(_, section)| !is_wide(section))?;
    Some(format!("section {key} is {section:?}"))
}

/// What no number of commands changes.
fn check_steps(before: &State, after: &State) -> Option<String> {
    let marks = |state: &State| {
        let cluster = state.cluster();
        [
            u64::from(state.level()),
            state.next_store().unwrap_or(0),
            state.table_version(),
            cluster.map_or(0, |cluster| cluster.next_session),
            cluster.map_or(0, |cluster| u64::from(cluster.next_namespace)),
        ]
    };
    let (old, new) = (marks(before), marks(after));
    if old.iter().zip(&new).any(|(old, new)| old > new) {
        return Some(format!("marks fell from {old:?} to {new:?}"));
    }
    let slots = before.slots().iter().zip(after.slots());
    if let Some((old, new)) = slots.into_iter().find(|(old, new)| old.epoch > new.epoch) {
        return Some(format!("an epoch fell: {old:?} became {new:?}"));
    }
    before.sections().find_map(|(key, old)| {
        let Some(new) = after.section(*key) else {
            return Some(format!("section {key} is gone"));
        };
        let is_same = new.generation == old.generation;
        let has_ended = !new.open;
        let follows = match is_same {
            true => {
                let is_fixed = (new.base, new.nonce) == (old.base, old.nonce);
                is_fixed
                    && (old.open || has_ended)
                    && (new.max_seq >= old.max_seq || (old.open && has_ended))
            }
            // An earlier generation gave at least its base.
            false => new.generation > old.generation && new.base >= old.base,
        };
        (!follows).then(|| format!("section {key} was {old:?} and is {new:?}"))
    })
}
