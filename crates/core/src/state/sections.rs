//! Section commands: the window of numbers an owner may hand out.
//!
//! Invariant: the windows of two generations of a section never overlap in numbers handed out. A
//! generation begins above max_seq. max_seq covers all older generations. It falls only to a
//! high-water mark that its own owner, under fence and generation, reports as the highest number
//! used.
//!
//! Schedules that would break it, and the check that rejects them:
//! - a deposed owner's late Raise or Close: epoch;
//! - a Raise sent before a Close of the same generation and arriving after it, widening what the
//!   next owner was given: generation and `open`;
//! - a Close of generation g arriving after g+1 was opened: generation;
//! - a duplicate of an old Open beginning a generation that no owner uses: `expected`.

use std::collections::BTreeSet;

use super::apply::CommandOutcome;
use super::{RowKey, SectionRow, State};
use crate::SEQ_MAX;
use crate::command::{CommandRejection, Fence, HighWaterMark, RaiseCause, Reply};
use crate::ids::{Generation, Nonce, SessionId, Slot};
use crate::namespace::NamespaceSpec;

impl State {
    pub(super) fn open(
        &mut self,
        fence: &Fence,
        expected: Generation,
        nonce: Nonce,
        step: u32,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let spec = self.check_fence(fence)?;
        let (progression, step_max) = (spec.progression, spec.limits.step_max);
        if step == 0 || step > step_max {
            return Err(CommandRejection::Invalid(format!(
                "an Open adds 1 to {step_max} numbers, not {step}"
            )));
        }
        let key = fence.section;
        let old = self.sections.get(&key);
        if let Some(old) = old.filter(|s| s.open && s.nonce == nonce) {
            crate::reached!("state: an Open was repeated");
            return Ok(Reply::Opened {
                generation: old.generation,
                base: old.base,
                max_seq: old.max_seq,
            });
        }
        let last = old.map_or(Generation(0), |s| s.generation);
        if last != expected && !crate::planted!(OpenAnyGeneration) {
            return Err(CommandRejection::StaleGeneration {
                section: key,
                generation: expected,
                last,
            });
        }
        let base = old.map_or_else(|| self.unopened_max_seq(&progression), |s| s.max_seq);
        let raised = old.map_or(0, |s| s.raised);
        let max_seq = progression
            .nth_after(base, u64::from(step))
            .ok_or(CommandRejection::SequenceExhausted(key))?;
        let generation = Generation(last.0 + 1);
        self.sections.insert(
            key,
            SectionRow {
                max_seq,
                generation,
                base,
                nonce,
                open: true,
                raised,
            },
        );
        touched.insert(RowKey::Section(key));
        Ok(Reply::Opened {
            generation,
            base,
            max_seq,
        })
    }

    pub(super) fn raise(
        &mut self,
        fence: &Fence,
        generation: Generation,
        to: u64,
        cause: RaiseCause,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        let spec = self.check_fence(fence)?;
        let (progression, limits) = (spec.progression, spec.limits);
        let key = fence.section;
        let section = self.current(fence, generation)?;
        let mut max_seq = section.max_seq;
        if to > max_seq {
            let jump = progression.count_between(max_seq, to);
            let bound = match cause {
                RaiseCause::Refill => progression.nth_after(max_seq, u64::from(limits.step_max)),
                RaiseCause::RaiseTo { force: true } => Some(SEQ_MAX),
                RaiseCause::RaiseTo { force: false } => {
                    let left = limits.raise_to_max.saturating_sub(section.raised);
                    if left == 0 {
                        Some(max_seq)
                    } else {
                        progression.nth_after(max_seq, left)
                    }
                }
            };
            let bound = bound.ok_or(CommandRejection::SequenceExhausted(key))?;
            if to > bound {
                return Err(CommandRejection::JumpTooLarge { to, bound });
            }
            let unforced = cause == (RaiseCause::RaiseTo { force: false });
            self.sections.change(key, |section| {
                section.max_seq = to;
                section.raised += if unforced { jump } else { 0 };
            });
            max_seq = to;
            touched.insert(RowKey::Section(key));
        }
        Ok(Reply::Raised {
            generation,
            max_seq,
        })
    }

    pub(super) fn close_section(
        &mut self,
        fence: &Fence,
        generation: Generation,
        value: u64,
        touched: &mut BTreeSet<RowKey>,
    ) -> CommandOutcome {
        self.check_fence(fence)?;
        let mut section = self.current(fence, generation)?.clone();
        section.close(value);
        let max_seq = section.max_seq;
        self.sections.insert(fence.section, section);
        touched.insert(RowKey::Section(fence.section));
        Ok(Reply::Closed {
            generation,
            max_seq,
        })
    }

    /// Applies one high-water mark of a slot whose ownership the caller has checked; skips one that
    /// does not match.
    pub(super) fn apply_high_water_mark(
        &mut self,
        slot: Slot,
        last: &HighWaterMark,
        touched: &mut BTreeSet<RowKey>,
    ) {
        if self.slot_of(last.section) != Some(slot) {
            return;
        }
        if let Some(section) = self.sections.get(&last.section)
            && section.open
            && section.generation == last.generation
        {
            self.sections
                .change(last.section, |section| section.close(last.value));
            touched.insert(RowKey::Section(last.section));
        }
    }

    /// Returns the session that owns the fence's slot at its epoch, if it lives.
    pub fn fence_owner(&self, fence: &Fence) -> Option<SessionId> {
        let row = self.slots.get(usize::from(fence.slot.0))?;
        row.owner
            .filter(|id| row.epoch == fence.epoch && self.sessions.contains_key(id))
    }

    fn check_fence(&self, fence: &Fence) -> Result<&NamespaceSpec, CommandRejection> {
        let namespace = self.namespaces.get(&fence.section.namespace);
        let namespace =
            namespace.ok_or(CommandRejection::NamespaceNotFound(fence.section.namespace))?;
        if !namespace.spec.geometry.has_section(fence.section.section) {
            return Err(CommandRejection::Invalid(format!(
                "there is no section {}",
                fence.section
            )));
        }
        if self.slot_of(fence.section) != Some(fence.slot) {
            return Err(CommandRejection::Invalid(format!(
                "section {} does not map to slot {}",
                fence.section, fence.slot
            )));
        }
        if self.fence_owner(fence).is_none() && !crate::planted!(CloseAnyGeneration) {
            crate::reached!("state: a command of another epoch was refused");
            let row = self.slot_row(fence.slot)?;
            return Err(CommandRejection::NotOwner {
                slot: fence.slot,
                epoch: row.epoch,
                owner: row.owner,
            });
        }
        Ok(&namespace.spec)
    }

    /// Returns the section's row, if `generation` is current and open.
    fn current(
        &self,
        fence: &Fence,
        generation: Generation,
    ) -> Result<&SectionRow, CommandRejection> {
        let key = fence.section;
        let section = self.sections.get(&key);
        let last = section.map_or(Generation(0), |s| s.generation);
        let stale = CommandRejection::StaleGeneration {
            section: key,
            generation,
            last,
        };
        section
            .filter(|s| s.open)
            .filter(|s| s.generation == generation || crate::planted!(CloseAnyGeneration))
            .ok_or(stale)
    }
}
