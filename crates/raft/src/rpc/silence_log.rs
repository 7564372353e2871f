//! One log line when a node does not answer this leader any more, and one when it answers again.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Silence after which it is logged: longer than a restart.
const SILENCE_MIN: Duration = Duration::from_secs(5);

/// Nodes that do not answer. At most one entry for each node that was ever a member.
#[derive(Default)]
pub(crate) struct SilenceLog(Mutex<HashMap<u64, SilentNode>>);

struct SilentNode {
    since: Instant,
    last_failure: Instant,
    is_logged: bool,
}

impl SilenceLog {
    /// Records an append to a node: why it had no answer, or None if it had one.
    pub(crate) fn record(&self, node: u64, address: &str, failure: Option<&str>) {
        let mut silent = self.0.lock();
        let Some(reason) = failure else {
            if silent.remove(&node).is_some_and(|found| found.is_logged) {
                tracing::info!(node, address, "store answers again");
            }
            return;
        };
        let now = Instant::now();
        let found = silent.entry(node).or_insert(SilentNode {
            since: now,
            last_failure: now,
            is_logged: false,
        });
        // Of an earlier leadership of this node: a leader calls more often.
        if now - found.last_failure > SILENCE_MIN {
            (found.since, found.is_logged) = (now, false);
        }
        found.last_failure = now;
        if !found.is_logged && now - found.since >= SILENCE_MIN {
            found.is_logged = true;
            tracing::warn!(
                node,
                address,
                reason,
                "store does not answer this leader; start it at that address, which cannot change, or replace it"
            );
        }
    }
}
