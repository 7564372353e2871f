//! Rules over a single transition: slots, sessions and the routing table's version.

use std::collections::BTreeSet;

use seqsvr_core::command::{Command, Reply};
use seqsvr_core::ids::Slot;
use seqsvr_core::state::SlotRow;

use crate::checker::{Transition, Verdict, require_rule};

pub(crate) fn check_slots(t: &Transition<'_>) -> Verdict {
    for (i, (old, new)) in t.before.slots().iter().zip(t.after.slots()).enumerate() {
        let what = || format!("slot {i}: {old:?} -> {new:?} by {:?}", t.command);
        require_rule("epoch never falls", new.epoch >= old.epoch, what)?;
        require_rule(
            "an owner changes under the next epoch only",
            new.epoch > old.epoch || old == new,
            what,
        )?;
        require_rule(
            "an epoch grows by one",
            new.epoch.0 - old.epoch.0 <= 1,
            what,
        )?;
        require_rule(
            "a slot is given away by the right command only",
            old == new || may_give_slot(t, Slot(i as u16), old, new),
            what,
        )?;
    }
    let count = t.after.cluster().map_or(0, |c| c.slots as usize);
    require_rule(
        "the number of slots is fixed",
        t.after.slots().len() == count,
        String::new,
    )
}

/// Returns whether the command may give this slot away, to the session that it names.
fn may_give_slot(t: &Transition<'_>, slot: Slot, old: &SlotRow, new: &SlotRow) -> bool {
    let ended = |session| old.owner == Some(session) && new.owner.is_none();
    match t.command {
        Command::Assign {
            slot: named,
            from,
            to,
        } => (*named, *from) == (slot, old.epoch) && old.owner.is_none() && new.owner == Some(*to),
        Command::MoveSlot {
            slot: named,
            epoch,
            to,
            ..
        } => {
            let to = to.filter(|id| t.before.session(*id).is_some());
            (*named, *epoch) == (slot, old.epoch) && old.owner.is_some() && new.owner == to
        }
        Command::CloseSession { session, last, .. } => *last && ended(*session),
        Command::ExpireSession { session, term } => *term == t.term && ended(*session),
        Command::OpenSession(open) => {
            let opened = match t.reply {
                Reply::Session(id) => Some(*id),
                _ => None,
            };
            old.owner.is_some() && old.owner == open.proof.map(|p| p.session) && new.owner == opened
        }
        _ => false,
    }
}

pub(crate) fn check_sessions(t: &Transition<'_>) -> Verdict {
    let mut names = BTreeSet::new();
    for (id, session) in t.after.sessions() {
        require_rule(
            "one living session per name",
            names.insert(&session.name),
            || format!("{id}"),
        )?;
    }
    for (i, row) in t.after.slots().iter().enumerate() {
        let alive = row.owner.is_none_or(|id| t.after.session(id).is_some());
        require_rule("owners live", alive, || format!("slot {i}: {row:?}"))?;
    }
    for (id, _) in t.before.sessions() {
        let gone = t.after.session(id).is_none();
        let right = match t.command {
            Command::CloseSession { session, last, .. } => *session == id && *last,
            Command::ExpireSession { session, term } => *session == id && *term == t.term,
            Command::OpenSession(open) => open.proof.is_some_and(|p| {
                p.session == id && t.before.session(id).is_some_and(|s| s.nonce == p.nonce)
            }),
            _ => false,
        };
        require_rule(
            "a session ends by its own request, proof or expiry of this term",
            !gone || right,
            || format!("{id} by {:?} in term {}", t.command, t.term),
        )?;
    }
    Ok(())
}

/// Checks that what clients can see changes only with a new table version.
pub(crate) fn check_table_version(t: &Transition<'_>) -> Verdict {
    let (old, new) = (t.before.table_version(), t.after.table_version());
    require_rule("the table version never falls", new >= old, || {
        format!("{old} -> {new}")
    })?;
    let visible =
        t.before.slots() != t.after.slots() || !t.before.namespaces().eq(t.after.namespaces());
    require_rule(
        "a visible change has a new table version",
        !visible || new > old,
        || format!("{:?}", t.command),
    )
}
