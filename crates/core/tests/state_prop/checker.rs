//! The invariants of the replicated state (design, sections 3 to 5) as a function over one
//! transition, plus a ledger of everything replies have granted so far.
//!
//! It judges `State::apply` from outside: it reads rows and replies and decides by itself whether a
//! command had the right to do what was done. `planted.rs` shows that each rule detects a fault.

use std::collections::{BTreeMap, BTreeSet};

use seqsvr_core::command::{Command, Reply};
use seqsvr_core::ids::{Epoch, Generation, SectionKey, SessionId, Slot};
use seqsvr_core::state::{RowKey, State};

use crate::owners::{check_sessions, check_slots, check_table_version};
use crate::rules::{
    check_format_level, check_rebuilt_rows, check_rejection, check_sections, check_touched_rows,
    find_marks_in_force,
};

/// One command applied.
pub(crate) struct Transition<'a> {
    pub(crate) before: &'a State,
    /// Term of the log entry.
    pub(crate) term: u64,
    pub(crate) command: &'a Command,
    pub(crate) reply: &'a Reply,
    pub(crate) touched: &'a BTreeSet<RowKey>,
    pub(crate) after: &'a State,
}

/// A broken rule, and how it was broken.
#[derive(Debug)]
pub(crate) struct BrokenRule {
    pub(crate) rule: &'static str,
    #[expect(dead_code, reason = "read through Debug when a property fails")]
    pub(crate) what: String,
}

pub(crate) type Verdict = Result<(), BrokenRule>;

/// Returns an error that names the rule unless it holds.
pub(crate) fn require_rule(rule: &'static str, good: bool, what: impl Fn() -> String) -> Verdict {
    if good {
        Ok(())
    } else {
        let what = what();
        Err(BrokenRule { rule, what })
    }
}

/// Grants of earlier replies; lives through a whole run.
#[derive(Default)]
pub(crate) struct Ledger {
    /// Owner by (slot, epoch), which names one session permanently; None: free.
    owners: BTreeMap<(Slot, Epoch), Option<SessionId>>,
    /// Greatest number each generation may have used: what replies granted it, less what its own
    /// high-water mark handed back.
    reach: BTreeMap<(SectionKey, Generation), u64>,
    /// Sessions that have ended.
    ended: BTreeSet<SessionId>,
}

impl Ledger {
    /// Judges one transition and remembers what it granted.
    pub(crate) fn check(&mut self, t: &Transition<'_>) -> Verdict {
        check_touched_rows(t)?;
        check_rejection(t)?;
        check_format_level(t)?;
        check_rebuilt_rows(t.after)?;
        check_sections(t)?;
        check_slots(t)?;
        check_sessions(t)?;
        check_table_version(t)?;
        self.check_owners(t)?;
        self.check_ended_sessions(t)?;
        self.check_windows(t)
    }

    fn check_owners(&mut self, t: &Transition<'_>) -> Verdict {
        for (i, row) in t.after.slots().iter().enumerate() {
            let key = (Slot(i as u16), row.epoch);
            let known = *self.owners.entry(key).or_insert(row.owner);
            require_rule("one session per slot and epoch", known == row.owner, || {
                format!("{key:?} was {known:?}, is {:?}", row.owner)
            })?;
        }
        Ok(())
    }

    fn check_ended_sessions(&mut self, t: &Transition<'_>) -> Verdict {
        let living: BTreeSet<_> = t.after.sessions().map(|(id, _)| id).collect();
        let back = self.ended.intersection(&living).next();
        require_rule("an ended session stays ended", back.is_none(), || {
            format!("{back:?} lives again")
        })?;
        let was = t.before.sessions().map(|(id, _)| id);
        self.ended.extend(was.filter(|id| !living.contains(id)));
        Ok(())
    }

    /// Checks that windows of two generations never overlap, above what the older one handed back.
    fn check_windows(&mut self, t: &Transition<'_>) -> Verdict {
        for (last, base) in find_marks_in_force(t) {
            let reach = self.reach.entry((last.section, last.generation));
            reach.and_modify(|reach| *reach = last.value.clamp(base, *reach));
        }
        let (key, generation) = match (t.command, t.reply) {
            (
                Command::Open { fence, .. },
                Reply::Opened {
                    generation, base, ..
                },
            ) => {
                let older = (fence.section, Generation(0))..(fence.section, *generation);
                let used = self.reach.range(older).map(|(_, reach)| *reach).max();
                require_rule(
                    "a generation begins above every older window",
                    used.is_none_or(|used| used <= *base),
                    || format!("{fence:?}: base {base}, but an older one may have used {used:?}"),
                )?;
                (fence.section, *generation)
            }
            (Command::Raise { fence, .. }, Reply::Raised { generation, .. }) => {
                (fence.section, *generation)
            }
            _ => return Ok(()),
        };
        let (Reply::Opened { max_seq, .. } | Reply::Raised { max_seq, .. }) = t.reply else {
            return Ok(());
        };
        let newer = (key, Generation(generation.0 + 1))..=(key, Generation(u64::MAX));
        require_rule(
            "only the last generation is granted numbers",
            self.reach.range(newer).next().is_none(),
            || format!("{key} {generation:?}"),
        )?;
        let stored = t.after.section(key);
        require_rule(
            "a grant is of the open generation",
            stored.is_some_and(|s| s.open && s.generation == generation),
            || format!("{key}: granted {generation:?}, stored {stored:?}"),
        )?;
        require_rule(
            "a grant is durable",
            stored.is_some_and(|s| s.max_seq >= *max_seq),
            || format!("{key}: granted {max_seq}, stored {stored:?}"),
        )?;
        let reach = self.reach.entry((key, generation)).or_default();
        *reach = (*reach).max(*max_seq);
        Ok(())
    }
}
