//! Which worker an acquisition gets.
//!
//! Invariant: a holder that renews in time keeps its worker. A worker that is held is given away
//! only once its grant has passed, or to its own name once it is about to. Schedule that breaks it:
//! workers whose grants end within a window are given away. Each holder loses its worker although
//! it renews at half of its window. (No id repeats: the new grant begins above the old one.)
//!
//! There is no timer and no arbiter: a holder that is gone is one whose ticks have passed.

use std::cmp::Reverse;

use super::super::{FamilyRow, State, WorkerRow};
use crate::command::CommandRejection;
use crate::family::{AcquireWorker, IdsRejection, IdsRejectionCause as Cause};
use crate::ids::{WorkerId, WorkerKey};
use crate::layout::format_utc_ms;

/// Most free workers that are examined for one with another lane. If none of these has one, the
/// caller waits.
pub(in crate::state) const LANE_ROWS_EXAMINED_MAX: usize = 1_000;

impl State {
    /// Returns the worker for a request, without any change.
    pub(super) fn choose_worker(
        &self,
        row: &FamilyRow,
        request: &AcquireWorker,
        now: u64,
    ) -> Result<WorkerId, CommandRejection> {
        if let Some(claimed) = request.worker {
            return self.check_claim(row, claimed, now);
        }
        let (spec, id) = (&row.family.spec, row.family.id);
        let ahead = spec.ticks_of_ms(row.family.limits.ahead_ms);
        let soon = now.saturating_add(ahead);
        let last_of = |is_held| self.workers.of_holder(id, &request.holder, is_held).next();
        let own = [last_of(true), last_of(false)].into_iter().flatten();
        let own = own.min_by_key(|(worker, row)| (Reverse(row.until()), *worker));
        if spec.sticky
            && let Some((worker, own)) = own
        {
            return match own.is_held && own.until() > soon {
                true => Err(self.worker_held(row, worker, own, ahead)),
                false => Ok(worker),
            };
        }
        let fresh = (row.next_fresh <= spec.last_worker).then_some(row.next_fresh);
        if spec.reuse_never {
            return fresh.ok_or_else(|| self.no_worker(row, None));
        }
        let first = |is_held| self.workers.by_until(id, is_held).next();
        let (held, free) = (first(true), first(false));
        let ends_by = |entry: Option<(u64, WorkerId)>, tick: u64| {
            let entry = entry.filter(|(until, _)| *until <= tick);
            entry.map(|(_, worker)| worker)
        };
        let passed = ends_by([held, free].into_iter().flatten().min(), now);
        let oldest_first = match spec.sticky {
            true => fresh.or(passed),
            false => passed.or(fresh),
        };
        let chosen = oldest_first.or(ends_by(free, soon)).or_else(|| {
            let most = LANE_ROWS_EXAMINED_MAX * usize::from(spec.lanes() > 1);
            let mut free = self.workers.by_until(id, false).take(most);
            free.find_map(|(_, worker)| {
                let other = self.workers.get(&WorkerKey { family: id, worker })?;
                other.other_lane(spec, now).map(|_| worker)
            })
        });
        let wait = |entry: Option<(u64, WorkerId)>, tick| Some(entry?.0.saturating_sub(tick));
        let waits = [wait(held, now), wait(free, soon)];
        chosen.ok_or_else(|| self.no_worker(row, waits.into_iter().flatten().min()))
    }

    /// Checks that a number can be claimed: never granted, free, or its grant has passed.
    fn check_claim(
        &self,
        row: &FamilyRow,
        worker: WorkerId,
        now: u64,
    ) -> Result<WorkerId, CommandRejection> {
        let (spec, family) = (&row.family.spec, row.family.id);
        let (first, last) = (spec.first_worker, spec.last_worker);
        let is_own = (first..=last).contains(&worker) && spec.reserved_range(worker).is_none();
        if !is_own || spec.reuse_never {
            return Err(CommandRejection::Invalid(format!(
                "worker {worker} of family {:?} cannot be claimed: it grants {first} to {last} without reserved ones, and none by its number if each is granted once; acquire any worker",
                spec.name
            )));
        }
        match self.workers.get(&WorkerKey { family, worker }) {
            Some(other) if other.is_held && other.until() > now => {
                Err(self.worker_held(row, worker, other, 0))
            }
            _ => Ok(worker),
        }
    }

    fn worker_held(
        &self,
        row: &FamilyRow,
        worker: WorkerId,
        held: &WorkerRow,
        ahead: u64,
    ) -> CommandRejection {
        let scale = row.family.spec.scale;
        let free_ms = scale.unix_ms_of(held.until().saturating_sub(ahead));
        let text = format!(
            "worker {worker} is held by {:?} until {}: is there another process of that name?",
            held.holder,
            format_utc_ms(scale.unix_ms_of(held.until()))
        );
        let wait_ms = free_ms.saturating_sub(self.store_time().high_ms);
        IdsRejection::for_now(Cause::WorkerHeld, &text, wait_ms).into()
    }

    fn no_worker(&self, row: &FamilyRow, wait: Option<u64>) -> CommandRejection {
        let spec = &row.family.spec;
        let (name, workers) = (&spec.name, spec.worker_count());
        let Some(ticks) = wait else {
            let text = format!(
                "all {workers} workers of family {name:?} were used once, and it never uses one again: make a family with --reuse oldest, or with more workers"
            );
            return IdsRejection::new(Cause::NoWorker, text).into();
        };
        let text = format!(
            "all {workers} workers of family {name:?} are held, or ahead of store time: stop a holder, or make a family with more workers"
        );
        let wait_ms = ticks.saturating_mul(spec.scale.unit_ms());
        IdsRejection::for_now(Cause::NoWorker, &text, wait_ms).into()
    }

    /// Moves the least worker that was never granted above those that were, and reserved ones.
    pub(super) fn skip_taken_workers(&self, row: &mut FamilyRow) {
        let (spec, family) = (&row.family.spec, row.family.id);
        let mut worker = row.next_fresh;
        // One walk and no search for each: millions may have been claimed. None is passed again.
        let taken = self.workers.of_family(family, worker);
        let mut taken = taken.map(|(worker, _)| worker).peekable();
        while worker <= spec.last_worker {
            let used = taken.next_if_eq(&worker);
            let reserved = || spec.reserved_range(worker).map(|(_, last)| last);
            match used.or_else(reserved) {
                Some(last) => worker = WorkerId(last.0 + 1),
                None => break,
            }
        }
        row.next_fresh = worker;
    }
}
