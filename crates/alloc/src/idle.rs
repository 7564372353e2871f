//! Idle sections are closed, so that memory follows the active keys; over the memory budget others
//! are closed as well, busy ones too (they open again right above their highest number): those
//! first that grew last. So whoever touches section upon section, or key upon key, has those
//! sections closed, and not the steady ones of others.
//!
//! Callers may touch keys faster than the budget is looked at. So the process-wide limit of
//! counters has a slack above the budgets: within it, sections are closed between two looks as
//! well; above it, no key is touched for the first time until some were closed
//! (`Refusal::NoMemory`).

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use seqsvr_core::section::memory;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::loaded::LoadedSection;
use crate::node::Node;

/// Sweeps without use after which a section is idle.
const IDLE_SWEEPS: u32 = 2;
/// Longest time between two looks at the memory budget.
const BUDGET_EVERY: Duration = Duration::from_secs(2);
/// Time between two looks at the memory of the process.
const MEMORY_EVERY: Duration = Duration::from_millis(50);
/// Minimum ratio of the pause after a walk over all sections to the time of the walk.
const PAUSE_RATIO: u32 = 10;
/// Closings under way at one time.
const CLOSING_MAX: usize = 1_000;

impl Node {
    /// Sweeps until cancelled; a section unused for between one and two times `idle_after` / 2 is
    /// closed.
    pub(crate) async fn run_idle(
        self: Arc<Self>,
        idle_after: Duration,
        budget: u64,
        cancel: CancellationToken,
    ) {
        let every = idle_after / IDLE_SWEEPS;
        let mut sweep_at = Instant::now() + every;
        loop {
            let due = sweep_at.min(Instant::now() + BUDGET_EVERY);
            let waited = self.wait_for_look(due, budget);
            if cancel.run_until_cancelled(waited).await.is_none() {
                return;
            }
            let sweep = Instant::now() >= sweep_at;
            if sweep {
                sweep_at = Instant::now() + every;
            }
            let victims = pick(self.sections.all(), sweep, budget);
            let closing = self.close_all(victims);
            if cancel.run_until_cancelled(closing).await.is_none() {
                return;
            }
        }
    }

    /// Waits until a look at the budget is due; closes sections above the budget before that, as
    /// often as the counters of the process have more than half of their slack.
    async fn wait_for_look(self: &Arc<Self>, due: Instant, budget: u64) {
        let mut next = Instant::now() + MEMORY_EVERY;
        while next < due {
            sleep_until(next).await;
            let mut pause = MEMORY_EVERY;
            if memory().is_tight() {
                let began = Instant::now();
                let victims = pick_above(self.sections.all(), budget);
                pause = pause.max(PAUSE_RATIO * began.elapsed());
                self.close_all(victims).await;
            }
            next = Instant::now() + pause;
        }
        sleep_until(due).await;
    }

    /// Closes sections, if a store answers.
    ///
    /// Invariant: a section in use is sealed for memory only when a store has just renewed the
    /// lease. Schedule that breaks it: the stores go away; busy sections above the budget are
    /// sealed; their callers wait for an Open, although the windows would have served them until
    /// the lease ends. After that nothing is handed out, so memory grows for at most D without a
    /// store.
    async fn close_all(self: &Arc<Self>, victims: Vec<Arc<LoadedSection>>) {
        if victims.is_empty() || !self.refresh(Instant::now() + BUDGET_EVERY).await {
            return;
        }
        let closing = futures::stream::iter(victims).for_each_concurrent(CLOSING_MAX, |loaded| {
            let node = self.clone();
            async move { node.close(loaded).await }
        });
        closing.await;
    }
}

/// The sections to close: idle ones at a sweep, and above the budget (bytes) those worth least; of
/// equals those unused since the last look before those in use, and the largest first.
fn pick(sections: Vec<Arc<LoadedSection>>, sweep: bool, budget: u64) -> Vec<Arc<LoadedSection>> {
    let mut victims = Vec::new();
    let mut rest = Vec::new();
    for loaded in sections {
        let (used, worth) = loaded.look();
        if sweep && loaded.sweep() >= IDLE_SWEEPS {
            victims.push(loaded);
        } else {
            let bytes = loaded.section.bytes() as u64;
            rest.push(((Reverse(worth), !used, bytes), loaded));
        }
    }
    victims.extend(above(rest, budget));
    victims
}

/// Returns the sections to close between two looks, ranked without a look.
fn pick_above(sections: Vec<Arc<LoadedSection>>, budget: u64) -> Vec<Arc<LoadedSection>> {
    let ranked = sections.into_iter().map(|loaded| {
        let (used, worth) = loaded.rank();
        let bytes = loaded.section.bytes() as u64;
        ((Reverse(worth), !used, bytes), loaded)
    });
    above(ranked.collect(), budget)
}

/// Order in which sections are kept: those that compare greater are closed first. Last: their
/// bytes.
type EvictionRank = (Reverse<u32>, bool, u64);

/// Returns the sections above the budget (bytes), those of the greatest rank.
fn above(
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
pub(crate) mod tests {
    use std::num::NonZeroU32;

    use seqsvr_core::command::Fence;
    use seqsvr_core::id::{Epoch, NamespaceId, SectionId, SectionKey, SessionId, Slot};
    use seqsvr_core::section::{Key, Open, Section};

    use super::*;
    use crate::session::LeasedSession;
    use crate::{Alloc, Options};

    /// A section object with a window of 1,000.
    pub(crate) fn loaded(section: u32, size: u32) -> Arc<LoadedSection> {
        let key = SectionKey {
            namespace: NamespaceId(1),
            section: SectionId(section),
        };
        let fence = Fence {
            slot: Slot(0),
            epoch: Epoch(1),
            section: key,
        };
        let session = Arc::new(LeasedSession::new(SessionId(1)));
        Arc::new(LoadedSection::new(fence, session, object(size), 10))
    }

    fn object(size: u32) -> Section {
        let open = Open {
            generation: 1,
            base: 0,
            max_seq: 1_000,
            first: Some(1),
            stride: 1,
        };
        Section::dense(open, size)
    }

    /// A node whose store does not answer.
    pub(crate) async fn node() -> (Alloc, Arc<Node>) {
        let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let options = Options::new("a1", any, vec!["127.0.0.1:1".into()]);
        let alloc = Alloc::start(options).await.unwrap();
        let node = alloc.node.clone();
        (alloc, node)
    }

    /// Schedule: the stores go away while sections are above the budget.
    #[tokio::test]
    async fn nothing_is_sealed_for_memory_while_no_store_answers() {
        let (_alloc, node) = node().await;
        let session = loaded(1, 10).session.clone();
        let one = LoadedSection::new(loaded(1, 10).fence, session, object(10), 10);
        let key = one.key();
        node.sections.publish(one);
        let victims = pick(node.sections.all(), false, 0);
        assert_eq!(victims.len(), 1);
        node.close_all(victims).await;
        let found = node.sections.get(key).expect("still loaded");
        assert!(!found.section.is_sealed());
        touch(&found);
    }

    fn touch(loaded: &LoadedSection) {
        let taken = loaded.section.next(Key::Dense(0), NonZeroU32::MIN);
        taken.expect("a number");
    }

    #[test]
    fn sections_touched_once_go_before_busy_ones_of_others() {
        let busy = loaded(0, 100_000);
        let once: Vec<_> = (1..=10).map(|n| loaded(n, 100)).collect();
        let all = || once.iter().chain([&busy]).cloned().collect::<Vec<_>>();
        all().iter().for_each(|one| touch(one));
        assert!(pick(all(), false, u64::MAX).is_empty());
        touch(&busy);
        // One small section must go: not the busy one, although it is the largest.
        let bytes: u64 = all().iter().map(|l| l.section.bytes() as u64).sum();
        let victims = pick(all(), false, bytes - 1);
        assert_eq!(victims.len(), 1);
        assert!(!Arc::ptr_eq(&victims[0], &busy));
        // When nothing else is left the busy one goes as well.
        touch(&busy);
        assert_eq!(pick(all(), false, 0).len(), 11);
    }

    #[test]
    fn sections_that_grow_go_before_steady_ones_of_others() {
        let steady = loaded(0, 100_000);
        let growing: Vec<_> = (1..=10).map(|n| loaded(n, 100)).collect();
        let all = || growing.iter().chain([&steady]).cloned().collect::<Vec<_>>();
        // All are in use at every look; a key is new to each but one.
        for key in 0..4 {
            touch(&steady);
            for one in &growing {
                let taken = one.section.next(Key::Dense(key), NonZeroU32::MIN);
                taken.expect("a number");
            }
            assert!(pick(all(), false, u64::MAX).is_empty());
        }
        all().iter().for_each(|one| touch(one));
        let steady_bytes = steady.section.bytes() as u64;
        let victims = pick(all(), false, steady_bytes);
        assert_eq!(victims.len(), growing.len());
        assert!(victims.iter().all(|v| !Arc::ptr_eq(v, &steady)));
    }

    #[test]
    fn between_looks_sections_that_grew_go_first_and_no_look_is_made() {
        let steady = loaded(0, 100_000);
        touch(&steady);
        for _ in 0..2 {
            assert!(pick(vec![steady.clone()], false, u64::MAX).is_empty());
            touch(&steady);
        }
        let new = loaded(1, 100);
        touch(&new);
        let all = || vec![steady.clone(), new.clone()];
        let bytes: u64 = all().iter().map(|l| l.section.bytes() as u64).sum();
        for _ in 0..2 {
            assert!(pick_above(all(), bytes).is_empty());
            let victims = pick_above(all(), bytes - 1);
            assert_eq!(victims.len(), 1);
            assert!(Arc::ptr_eq(&victims[0], &new));
        }
        assert_eq!(pick_above(all(), 0).len(), 2);
        assert!(steady.section.is_used(), "the next look still sees the use");
    }

    #[test]
    fn looks_at_the_budget_make_nothing_idle() {
        let one = loaded(0, 100);
        let idle = |sweep| !pick(vec![one.clone()], sweep, u64::MAX).is_empty();
        for _ in 0..3 {
            touch(&one);
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
