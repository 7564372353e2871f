//! Closes idle sections, so that memory follows the active keys. Above the memory budget it closes
//! other sections too, even busy ones (they open again right above their highest number): first
//! those that grew last. So a caller that touches section after section, or key after key, has
//! those sections closed, and not the steady sections of others.
//!
//! Callers may touch keys faster than the budget is checked. So the process-wide limit of counters
//! has a slack above the budgets. Within the slack, sections are closed between two checks as well.
//! Above it, no new key is accepted until some sections are closed (`TakeError::MemoryExhausted`).

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use seqsvr_core::section::counter_memory;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::sections::loaded_section::LoadedSection;
use crate::sections::section_lifecycle::SectionLifecycle;
use crate::sections::section_map::SectionMap;
use crate::shared_parts::SharedParts;

/// Sweeps without use after which a section is idle.
const IDLE_SWEEPS: u32 = 2;
/// Maximum time between two checks of the memory budget.
const BUDGET_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Time between two checks of the memory of the process.
const MEMORY_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum ratio of the pause after a walk over all sections to the time of the walk.
const PAUSE_TO_WALK_RATIO: u32 = 10;
/// Maximum closes in flight; above it further closes wait.
const CLOSES_IN_FLIGHT_MAX: usize = 1_000;

/// Closes sections that are idle, or above the memory budget.
pub(crate) struct Evictor {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) lifecycle: Arc<SectionLifecycle>,
    pub(crate) section_idle_timeout: Duration,
    /// Bytes above which sections are closed even if they are busy.
    pub(crate) budget: u64,
}

impl Evictor {
    /// Sweeps until canceled. A section is closed once it was unused for between
    /// `section_idle_timeout` and one and a half times of it.
    pub(crate) async fn run(self, cancel: CancellationToken) {
        let sweep_interval = self.section_idle_timeout / IDLE_SWEEPS;
        let mut next_sweep = Instant::now() + sweep_interval;
        loop {
            let due = next_sweep.min(Instant::now() + BUDGET_CHECK_INTERVAL);
            let waited = self.wait_until_budget_check(due);
            if cancel.run_until_cancelled(waited).await.is_none() {
                return;
            }
            let is_sweep_due = Instant::now() >= next_sweep;
            if is_sweep_due {
                next_sweep = Instant::now() + sweep_interval;
            }
            let victims = select_victims(self.sections.all(), is_sweep_due, self.budget);
            let closing = self.close_sections(victims);
            if cancel.run_until_cancelled(closing).await.is_none() {
                return;
            }
        }
    }

    /// Waits until a check of the budget is due. Closes sections above the budget before that, each
    /// time that the counters of the process use more than half of their slack.
    async fn wait_until_budget_check(&self, due: Instant) {
        let mut next = Instant::now() + MEMORY_CHECK_INTERVAL;
        while next < due {
            sleep_until(next).await;
            let mut pause = MEMORY_CHECK_INTERVAL;
            if counter_memory().is_tight() {
                let began = Instant::now();
                let victims = select_over_budget(self.sections.all(), self.budget);
                pause = pause.max(PAUSE_TO_WALK_RATIO * began.elapsed());
                self.close_sections(victims).await;
            }
            next = Instant::now() + pause;
        }
        sleep_until(due).await;
    }

    /// Closes sections, if a store answers.
    ///
    /// Invariant: a section in use is sealed for memory only when a store has just renewed the
    /// lease. Schedule that breaks it: the stores become unreachable; busy sections above the
    /// budget are sealed; their callers wait for an Open, although the windows would have served
    /// them until the lease ends. After the lease ends no number is handed out, so memory grows for
    /// at most D without a store.
    async fn close_sections(&self, victims: Vec<Arc<LoadedSection>>) {
        if victims.is_empty()
            || !self
                .shared
                .renewals
                .renew_and_wait(Instant::now() + BUDGET_CHECK_INTERVAL)
                .await
        {
            return;
        }
        let closing = futures::stream::iter(victims)
            .for_each_concurrent(CLOSES_IN_FLIGHT_MAX, |loaded| {
                self.lifecycle.close_section(loaded)
            });
        closing.await;
    }
}

/// Returns the sections to close: idle ones at a sweep, and above the budget (bytes) those of the
/// lowest score; among equals those unused since the last sample first, then the largest.
fn select_victims(
    sections: Vec<Arc<LoadedSection>>,
    is_sweep_due: bool,
    budget: u64,
) -> Vec<Arc<LoadedSection>> {
    let mut victims = Vec::new();
    let mut kept = Vec::new();
    for loaded in sections {
        let (used, retention_score) = loaded.sample_usage();
        if is_sweep_due && loaded.count_idle_sweep() >= IDLE_SWEEPS {
            victims.push(loaded);
        } else {
            let bytes = loaded.section.memory_bytes() as u64;
            kept.push(((Reverse(retention_score), !used, bytes), loaded));
        }
    }
    victims.extend(take_over_budget(kept, budget));
    victims
}

/// Returns the sections to close between two samples, ranked without a sample.
fn select_over_budget(sections: Vec<Arc<LoadedSection>>, budget: u64) -> Vec<Arc<LoadedSection>> {
    let ranked = sections.into_iter().map(|loaded| {
        let (used, retention_score) = loaded.peek_usage();
        let bytes = loaded.section.memory_bytes() as u64;
        ((Reverse(retention_score), !used, bytes), loaded)
    });
    take_over_budget(ranked.collect(), budget)
}

/// Order in which sections are kept: those that compare greater are closed first. Last: their
/// bytes.
type EvictionRank = (Reverse<u32>, bool, u64);

/// Returns the sections above the budget (bytes), those of the greatest rank.
fn take_over_budget(
    mut ranked: Vec<(EvictionRank, Arc<LoadedSection>)>,
    budget: u64,
) -> Vec<Arc<LoadedSection>> {
    let mut bytes: u64 = ranked.iter().map(|((.., bytes), _)| bytes).sum();
    let mut victims = Vec::new();
    if bytes > budget {
        ranked.sort_by_key(|(rank, _)| *rank);
        while bytes > budget
            && let Some(((.., freed), loaded)) = ranked.pop()
        {
            bytes -= freed;
            victims.push(loaded);
        }
    }
    victims
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use seqsvr_core::section::CounterKey;

    use super::*;
    use crate::sections::test_util::{
        dense_section, test_section, unconnected_lifecycle, unconnected_parts,
    };

    /// Schedule: the stores go away while sections are above the budget.
    #[tokio::test]
    async fn eviction_without_store_seals_nothing() {
        let sections = Arc::new(SectionMap::new([1, 2]));
        let shared = unconnected_parts();
        let lifecycle = unconnected_lifecycle(shared.clone(), sections.clone());
        let evictor = Evictor {
            shared,
            sections: sections.clone(),
            lifecycle: Arc::new(lifecycle),
            section_idle_timeout: Duration::MAX,
            budget: 0,
        };
        let session = test_section(1, 10).session.clone();
        let one = LoadedSection::new(test_section(1, 10).fence, session, dense_section(10), 10);
        let key = one.key();
        sections.publish(one);
        let victims = select_victims(sections.all(), false, 0);
        assert_eq!(victims.len(), 1);
        evictor.close_sections(victims).await;
        let found = sections.get(key).expect("still loaded");
        assert!(!found.section.is_sealed());
        take_one(&found);
    }

    fn take_one(loaded: &LoadedSection) {
        let taken = loaded.section.next(CounterKey::Dense(0), NonZeroU32::MIN);
        taken.expect("a number");
    }

    #[test]
    fn eviction_prefers_sections_touched_once() {
        let busy = test_section(0, 100_000);
        let once: Vec<_> = (1..=10).map(|n| test_section(n, 100)).collect();
        let all = || once.iter().chain([&busy]).cloned().collect::<Vec<_>>();
        all().iter().for_each(|one| take_one(one));
        assert!(select_victims(all(), false, u64::MAX).is_empty());
        take_one(&busy);
        // One small section must go: not the busy one, although it is the largest.
        let bytes: u64 = all().iter().map(|l| l.section.memory_bytes() as u64).sum();
        let victims = select_victims(all(), false, bytes - 1);
        assert_eq!(victims.len(), 1);
        assert!(!Arc::ptr_eq(&victims[0], &busy));
        // When no other section is left, the busy one goes as well.
        take_one(&busy);
        assert_eq!(select_victims(all(), false, 0).len(), 11);
    }

    #[test]
    fn eviction_prefers_growing_sections() {
        let steady = test_section(0, 100_000);
        let growing: Vec<_> = (1..=10).map(|n| test_section(n, 100)).collect();
        let all = || growing.iter().chain([&steady]).cloned().collect::<Vec<_>>();
        // All are in use at every sample; a key is new to each but one.
        for key in 0..4 {
            take_one(&steady);
            for one in &growing {
                let taken = one.section.next(CounterKey::Dense(key), NonZeroU32::MIN);
                taken.expect("a number");
            }
            assert!(select_victims(all(), false, u64::MAX).is_empty());
        }
        all().iter().for_each(|one| take_one(one));
        let steady_bytes = steady.section.memory_bytes() as u64;
        let victims = select_victims(all(), false, steady_bytes);
        assert_eq!(victims.len(), growing.len());
        assert!(victims.iter().all(|v| !Arc::ptr_eq(v, &steady)));
    }

    #[test]
    fn eviction_between_samples_prefers_new_sections_and_samples_nothing() {
        let steady = test_section(0, 100_000);
        take_one(&steady);
        for _ in 0..2 {
            assert!(select_victims(vec![steady.clone()], false, u64::MAX).is_empty());
            take_one(&steady);
        }
        let new = test_section(1, 100);
        take_one(&new);
        let all = || vec![steady.clone(), new.clone()];
        let bytes: u64 = all().iter().map(|l| l.section.memory_bytes() as u64).sum();
        for _ in 0..2 {
            assert!(select_over_budget(all(), bytes).is_empty());
            let victims = select_over_budget(all(), bytes - 1);
            assert_eq!(victims.len(), 1);
            assert!(Arc::ptr_eq(&victims[0], &new));
        }
        assert_eq!(select_over_budget(all(), 0).len(), 2);
        assert!(steady.section.is_used(), "the next look still sees the use");
    }

    #[test]
    fn budget_checks_make_no_section_idle() {
        let one = test_section(0, 100);
        let idle =
            |is_sweep_due| !select_victims(vec![one.clone()], is_sweep_due, u64::MAX).is_empty();
        for _ in 0..3 {
            take_one(&one);
            assert!(!idle(false));
            assert!(!idle(false));
            assert!(!idle(true), "used since the last sweep");
        }
        for _ in 1..IDLE_SWEEPS {
            assert!(!idle(true));
        }
        assert!(idle(true));
    }
}
