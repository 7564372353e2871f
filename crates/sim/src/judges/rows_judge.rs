//! Judges rule 5: the state of a store is well-formed and can follow from every earlier state.
//!
//! Between two looks a store applies many entries, so this judges only what holds over any number
//! of them. The tests of `core` judge single entries.

use std::collections::BTreeSet;

use seqsvr_core::SEQ_MAX;
use seqsvr_core::state::{SectionRow, State};

use crate::cluster::{SimCluster, machine_name};

/// Number of looks between two checks, because this check takes longer than the others.
const LOOKS_PER_CHECK: u64 = 20;

/// Judge of the rows of all states.
#[derive(Default)]
pub struct RowsJudge {
    look_count: u64,
    /// Index and state of the newest check.
    before: Option<(u64, State)>,
}

impl RowsJudge {
    /// Judges the states of all stores. Returns the broken rule.
    pub fn judge_stores(&mut self, cluster: &SimCluster) -> Option<String> {
        self.look_count += 1;
        if !self.look_count.is_multiple_of(LOOKS_PER_CHECK) {
            return None;
        }
        for machine in cluster.machines.values() {
            let Some(store) = machine.running_store() else {
                continue;
            };
            let index = store.look().applied.map_or(0, |applied| applied.index);
            // States of equal indexes are equal, which is rule 2.
            if self
                .before
                .as_ref()
                .is_some_and(|(known, _)| *known >= index)
            {
                continue;
            }
            let state = store.with_state(State::clone);
            let before = self.before.take().map(|(_, state)| state);
            let broken = check_rows(&before.unwrap_or_default(), &state).err();
            self.before = Some((index, state));
            if let Some(broken) = broken {
                return Some(format!(
                    "5: {} at {index}: {broken}",
                    machine_name(machine.id)
                ));
            }
        }
        None
    }
}

/// Checks a state against an earlier one.
///
/// # Errors
/// If a rule is broken; the error names it.
fn check_rows(before: &State, after: &State) -> Result<(), String> {
    check_cluster_numbers(before, after)?;
    check_namespaces(before, after)?;
    check_sections(before, after)?;
    check_slots(before, after)?;
    check_sessions(before, after)?;
    let is_whole = State::from_rows(after.rows()).as_ref() == Some(after);
    require_rule("the rows are the whole state", is_whole, String::new)
}

fn require_rule(rule: &str, is_kept: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    match is_kept {
        true => Ok(()),
        false => Err(format!("{rule}: {}", what())),
    }
}

/// Checks the numbers of the cluster that never decrease, and those that never change.
fn check_cluster_numbers(before: &State, after: &State) -> Result<(), String> {
    let marks = |state: &State| {
        let cluster = state.cluster();
        [
            u64::from(state.format_level()),
            state.next_store().unwrap_or(0),
            state.table_version(),
            cluster.map_or(0, |cluster| cluster.next_session),
            cluster.map_or(0, |cluster| u64::from(cluster.next_namespace)),
        ]
    };
    let (old, new) = (marks(before), marks(after));
    let is_kept = old.iter().zip(&new).all(|(old, new)| old <= new);
    require_rule(
        "level, next store, table version, next session and next namespace never fall",
        is_kept,
        || format!("{old:?} -> {new:?}"),
    )?;
    let fixed = |state: &State| state.cluster().map(|c| (c.id, c.lease_ms, c.slots));
    let (old, new) = (fixed(before), fixed(after));
    require_rule(
        "id, lease and slots are fixed",
        old.is_none() || old == new,
        || format!("{old:?} -> {new:?}"),
    )?;
    let is_same = before.slots() == after.slots() && before.namespaces().eq(after.namespaces());
    let (old, new) = (before.table_version(), after.table_version());
    require_rule(
        "a change of the table has a new version",
        is_same || new > old,
        || format!("version {new}"),
    )
}

fn check_namespaces(before: &State, after: &State) -> Result<(), String> {
    for old in before.namespaces() {
        let new = after.namespace(old.id);
        let is_kept = new.is_some_and(|new| {
            let (old, new) = (&old.spec, &new.spec);
            (&old.name, old.geometry, old.progression) == (&new.name, new.geometry, new.progression)
        });
        require_rule("a namespace stays", is_kept, || {
            format!("{old:?} -> {new:?}")
        })?;
    }
    let next = after.cluster().map_or(0, |cluster| cluster.next_namespace);
    let beyond = after.namespaces().find(|namespace| namespace.id.0 >= next);
    require_rule("ids of namespaces were given", beyond.is_none(), || {
        format!("{beyond:?}, the next is {next}")
    })
}

fn check_sections(before: &State, after: &State) -> Result<(), String> {
    let mut known = 0;
    for (key, new) in after.sections() {
        let old = before.section(*key);
        known += u64::from(old.is_some());
        let what = || format!("section {key}: {old:?} -> {new:?}");
        let is_within = new.base <= new.max_seq && new.max_seq <= SEQ_MAX;
        require_rule("base <= max_seq <= 2^63-1", is_within, what)?;
        if let Some(old) = old.filter(|old| *old != new) {
            check_section(old, new).map_err(|rule| format!("{rule}: {}", what()))?;
        }
    }
    require_rule("a section stays", known == before.sections_known(), || {
        format!("{known} of {}", before.sections_known())
    })
}

fn check_section(old: &SectionRow, new: &SectionRow) -> Result<(), &'static str> {
    let is_same = new.generation == old.generation;
    let has_ended = is_same && !old.open;
    let rules = [
        ("generation never falls", new.generation >= old.generation),
        ("raised never falls", new.raised >= old.raised),
        (
            "base and nonce belong to the generation",
            !is_same || (new.base, new.nonce) == (old.base, old.nonce),
        ),
        ("a generation that has ended never changes", !has_ended),
        (
            "max_seq falls only with the end of the generation",
            !is_same || !new.open || new.max_seq >= old.max_seq,
        ),
        ("base never falls", new.base >= old.base),
        (
            "a generation begins at the end of one before it",
            is_same || old.open || new.base >= old.max_seq,
        ),
    ];
    let broken = rules.into_iter().find(|(_, is_kept)| !is_kept);
    broken.map_or(Ok(()), |(rule, _)| Err(rule))
}

fn check_slots(before: &State, after: &State) -> Result<(), String> {
    let count = after.cluster().map_or(0, |cluster| cluster.slots as usize);
    let slots = after.slots();
    require_rule(
        "there are as many slots as said",
        slots.len() == count,
        || format!("{} of {count}", slots.len()),
    )?;
    for (slot, new) in slots.iter().enumerate() {
        let has_owner = new.owner.is_none_or(|owner| after.session(owner).is_some());
        require_rule("an owner is a session", has_owner, || {
            format!("slot {slot}: {new:?}")
        })?;
        let Some(old) = before.slots().get(slot) else {
            continue;
        };
        require_rule(
            "a slot changes only with a greater epoch",
            new.epoch > old.epoch || new == old,
            || format!("slot {slot}: {old:?} -> {new:?}"),
        )?;
    }
    Ok(())
}

fn check_sessions(before: &State, after: &State) -> Result<(), String> {
    let next = |state: &State| state.cluster().map_or(0, |cluster| cluster.next_session);
    let mut names = BTreeSet::new();
    for (id, session) in after.sessions() {
        let what = || format!("session {id}: {session:?}");
        require_rule("ids of sessions were given", id.0 < next(after), what)?;
        require_rule("one session a name", names.insert(&session.name), what)?;
        let is_kept = match before.session(id) {
            Some(old) => old == session,
            None => id.0 >= next(before),
        };
        require_rule(
            "a session that has ended stays so, and none changes",
            is_kept,
            what,
        )?;
    }
    Ok(())
}
