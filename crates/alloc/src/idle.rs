//! Idle sections are closed, so that memory follows the active keys; over the memory budget the
//! largest are closed even if busy (they open again right above their highest number).

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::loaded::Loaded;
use crate::node::Node;

/// Sweeps without use after which a section is idle.
const IDLE_SWEEPS: u32 = 2;
/// Longest time between two looks at the memory budget.
const BUDGET_EVERY: Duration = Duration::from_secs(2);
/// Closings under way at one time.
const CLOSING_MAX: usize = 1_000;

impl Node {
    /// Sweeps until cancelled; a section unused for between one and two times `idle_after` / 2 is closed.
    pub(crate) async fn run_idle(
        self: Arc<Self>,
        idle_after: Duration,
        budget: u64,
        cancel: CancellationToken,
    ) {
        let every = idle_after / IDLE_SWEEPS;
        let mut sweep_at = Instant::now() + every;
        while cancel
            .run_until_cancelled(sleep_until(sweep_at.min(Instant::now() + BUDGET_EVERY)))
            .await
            .is_some()
        {
            let sweep = Instant::now() >= sweep_at;
            if sweep {
                sweep_at = Instant::now() + every;
            }
            let victims = pick(self.sections.all(), sweep, budget);
            let closing =
                futures::stream::iter(victims).for_each_concurrent(CLOSING_MAX, |loaded| {
                    let node = self.clone();
                    async move { node.close(loaded).await }
                });
            if cancel.run_until_cancelled(closing).await.is_none() {
                return;
            }
        }
    }
}

/// The sections to close: idle ones at a sweep, and the largest ones above the budget (bytes).
fn pick(sections: Vec<Arc<Loaded>>, sweep: bool, budget: u64) -> Vec<Arc<Loaded>> {
    let (mut victims, mut busy): (Vec<_>, Vec<_>) = sections
        .into_iter()
        .partition(|l| sweep && l.sweep() >= IDLE_SWEEPS);
    let mut bytes: u64 = busy.iter().map(|l| l.section.bytes() as u64).sum();
    if bytes > budget {
        busy.sort_by_key(|l| l.section.bytes());
        while bytes > budget
            && let Some(largest) = busy.pop()
        {
            bytes -= largest.section.bytes() as u64;
            victims.push(largest);
        }
    }
    victims
}
