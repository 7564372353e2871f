//! Rules over a single transition: rows, sections, and the high-water marks that had the right to
//! end one.

use std::collections::{BTreeMap, BTreeSet};

use seqsvr_core::SEQ_MAX;
use seqsvr_core::command::{Command, Fence, HighWaterMark, RaiseCause, Reply};
use seqsvr_core::geometry::slot_of;
use seqsvr_core::ids::{Generation, SectionKey};
use seqsvr_core::state::{RowKey, SectionRow, State, StateRow};

use crate::checker::{Transition, Verdict, require_rule};

/// Checks that the touched rows are exactly the rows that changed.
pub(crate) fn check_touched_rows(t: &Transition<'_>) -> Verdict {
    let before: BTreeMap<RowKey, StateRow> = t.before.rows().collect();
    let after: BTreeMap<RowKey, StateRow> = t.after.rows().collect();
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).copied().collect();
    let differs = |key: &RowKey| before.get(key) != after.get(key);
    let changed: BTreeSet<_> = keys.into_iter().filter(differs).collect();
    require_rule(
        "touched rows are the changed rows",
        *t.touched == changed,
        || format!("touched {:?}, changed {changed:?}", t.touched),
    )
}

pub(crate) fn check_rejection(t: &Transition<'_>) -> Verdict {
    let is_rejected = matches!(t.reply, Reply::Rejected(_));
    require_rule(
        "a rejection changes nothing",
        !is_rejected || t.before == t.after,
        || format!("{:?}", t.reply),
    )
}

/// Checks that the format level and the mark of store ids never fall.
pub(crate) fn check_format_level(t: &Transition<'_>) -> Verdict {
    let row = |state: &State| (state.format_level(), state.next_store());
    let (before, after) = (row(t.before), row(t.after));
    let kept = before.0 <= after.0 && before.1 <= after.1;
    require_rule("the format level never falls", kept, || {
        format!("{before:?} -> {after:?}")
    })
}

pub(crate) fn check_rebuilt_rows(after: &State) -> Verdict {
    let rebuilt = State::from_rows(after.rows());
    require_rule(
        "the rows are the whole state",
        rebuilt.as_ref() == Some(after),
        String::new,
    )
}

pub(crate) fn check_sections(t: &Transition<'_>) -> Verdict {
    let ending: BTreeMap<_, _> = find_marks_in_force(t)
        .into_iter()
        .map(|(last, _)| (last.section, last.value))
        .collect();
    for (key, _) in t.before.sections() {
        let new = t.after.section(*key);
        require_rule("a section row never goes away", new.is_some(), || {
            key.to_string()
        })?;
    }
    for (key, new) in t.after.sections() {
        let what = || format!("{key}: {:?} -> {new:?}", t.before.section(*key));
        require_rule(
            "base <= max_seq <= 2^63-1",
            new.base <= new.max_seq && new.max_seq <= SEQ_MAX,
            what,
        )?;
        match t.before.section(*key) {
            Some(old) if new.generation == old.generation => {
                check_same_generation(t, *key, old, new, ending.get(key).copied())?;
            }
            old => check_new_generation(t, *key, old, new)?,
        }
    }
    Ok(())
}

fn check_same_generation(
    t: &Transition<'_>,
    key: SectionKey,
    old: &SectionRow,
    new: &SectionRow,
    ending: Option<u64>,
) -> Verdict {
    let what = || format!("{key}: {old:?} -> {new:?} by {:?}", t.command);
    let fixed = old.base == new.base && old.nonce == new.nonce;
    require_rule("base and nonce belong to the generation", fixed, what)?;
    require_rule(
        "a generation once ended stays ended",
        old.open || !new.open,
        what,
    )?;
    require_rule(
        "a generation ends by its high-water mark only",
        old.open == new.open || ending.is_some(),
        what,
    )?;
    if let Some(value) = ending {
        let exact = new.max_seq == value.clamp(old.base, old.max_seq) && !new.open;
        require_rule(
            "a high-water mark is clamped and ends the generation",
            exact,
            what,
        )?;
    } else {
        require_rule(
            "max_seq falls by a matching high-water mark only",
            new.max_seq >= old.max_seq,
            what,
        )?;
    }
    if new.max_seq > old.max_seq {
        let by_owner = match t.command {
            Command::Raise {
                fence, generation, ..
            } => {
                fence.section == key
                    && is_owned_at(t.before, fence)
                    && *generation == old.generation
            }
            _ => false,
        };
        require_rule(
            "max_seq grows by its owner's Raise only",
            by_owner && old.open,
            what,
        )?;
        check_raise_bound(t, key, old, new)?;
    }
    Ok(())
}

/// Checks that a refill adds at most step_max numbers, and unforced RaiseTos at most raise_to_max
/// in all.
fn check_raise_bound(
    t: &Transition<'_>,
    key: SectionKey,
    old: &SectionRow,
    new: &SectionRow,
) -> Verdict {
    let Some(namespace) = t.before.namespace(key.namespace) else {
        return require_rule("a section's namespace exists", false, || key.to_string());
    };
    let added = namespace
        .spec
        .progression
        .count_between(old.max_seq, new.max_seq);
    let limits = namespace.spec.limits;
    let good = match t.command {
        Command::Raise {
            cause: RaiseCause::Refill,
            ..
        } => added <= u64::from(limits.step_max) && new.raised == old.raised,
        Command::Raise {
            cause: RaiseCause::RaiseTo { force: true },
            ..
        } => new.raised == old.raised,
        Command::Raise {
            cause: RaiseCause::RaiseTo { force: false },
            ..
        } => new.raised == old.raised + added && new.raised <= limits.raise_to_max,
        _ => false,
    };
    require_rule("a raise keeps its bound", good, || {
        format!("{key}: {old:?} -> {new:?}")
    })
}

fn check_new_generation(
    t: &Transition<'_>,
    key: SectionKey,
    old: Option<&SectionRow>,
    new: &SectionRow,
) -> Verdict {
    let what = || format!("{key}: {old:?} -> {new:?} by {:?}", t.command);
    let last = old.map_or(Generation(0), |s| s.generation);
    require_rule("generation never falls", new.generation > last, what)?;
    let floor = t
        .before
        .namespace(key.namespace)
        .map(|n| n.spec.progression.max_seq_floor());
    let good = match t.command {
        Command::Open {
            fence,
            expected,
            nonce,
            ..
        } => {
            fence.section == key
                && is_owned_at(t.before, fence)
                && *expected == last
                && *nonce == new.nonce
                && new.generation.0 == last.0 + 1
        }
        _ => false,
    };
    require_rule(
        "a generation begins by its owner's Open only",
        good && new.open,
        what,
    )?;
    let base = old.map(|s| s.max_seq).or(floor);
    require_rule(
        "base is the max_seq before",
        base == Some(new.base) && new.base < new.max_seq,
        what,
    )
}

/// Returns whether the slot of the fence has an owner at its epoch, and the section belongs to it.
fn is_owned_at(state: &State, fence: &Fence) -> bool {
    let Some(cluster) = state.cluster() else {
        return false;
    };
    let row = state.slots().get(usize::from(fence.slot.0));
    slot_of(fence.section, cluster.slots) == fence.slot
        && row.is_some_and(|row| row.epoch == fence.epoch && row.owner.is_some())
}

/// Returns high-water marks of this command that had the right to end a generation, with that
/// generation's base.
pub(crate) fn find_marks_in_force(t: &Transition<'_>) -> Vec<(HighWaterMark, u64)> {
    let is_rejected = matches!(t.reply, Reply::Rejected(_));
    let (named, session): (Vec<(Fence, HighWaterMark)>, _) = match t.command {
        _ if is_rejected => (Vec::new(), None),
        Command::CloseSection {
            fence,
            generation,
            value,
        } => {
            let last = HighWaterMark {
                section: fence.section,
                generation: *generation,
                value: *value,
            };
            (vec![(*fence, last)], None)
        }
        Command::MoveSlot {
            slot,
            epoch,
            high_water_marks,
            ..
        } => {
            let fence = |last: &HighWaterMark| Fence {
                slot: *slot,
                epoch: *epoch,
                section: last.section,
            };
            (
                high_water_marks
                    .iter()
                    .map(|last| (fence(last), *last))
                    .collect(),
                None,
            )
        }
        Command::CloseSession {
            session,
            high_water_marks,
            ..
        } => {
            let named = high_water_marks.iter().map(|f| {
                (
                    Fence {
                        slot: f.slot,
                        epoch: f.epoch,
                        section: f.mark.section,
                    },
                    f.mark,
                )
            });
            (named.collect(), Some(*session))
        }
        _ => (Vec::new(), None),
    };
    let mut ended = BTreeSet::new();
    let mut in_force = Vec::new();
    for (fence, last) in named {
        let owner = t
            .before
            .slots()
            .get(usize::from(fence.slot.0))
            .and_then(|row| row.owner);
        let theirs = is_owned_at(t.before, &fence) && (session.is_none() || session == owner);
        let section = t.before.section(last.section);
        let current = section.filter(|s| s.open && s.generation == last.generation);
        if let (true, Some(section)) = (theirs, current)
            && ended.insert(last.section)
        {
            in_force.push((last, section.base));
        }
    }
    in_force
}
