//! How many ids each worker made.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::{self, Write as _};

use seqsvr_ids::presets::IdScheme;

/// Workers that are counted one by one. The ids of further ones are among the others, so that a
/// wrong preset cannot use up the memory.
const WORKERS_MAX: usize = 1 << 22;
/// Workers that are named, those with the most ids first.
const LINES_MAX: usize = 20;

/// Counts of ids by data center and worker.
#[derive(Default)]
pub(super) struct WorkerShares(HashMap<(u32, u32), u64>);

impl WorkerShares {
    pub(super) fn add(&mut self, dc: u32, worker: u32) {
        let is_full = self.0.len() >= WORKERS_MAX;
        match self.0.get_mut(&(dc, worker)) {
            Some(ids) => *ids += 1,
            None if is_full => {}
            None => _ = self.0.insert((dc, worker), 1),
        }
    }

    /// Appends a line for each of the first workers, and one for the others.
    pub(super) fn describe(
        self,
        report: &mut String,
        scheme: &IdScheme,
        total: u64,
    ) -> fmt::Result {
        let has_dc = scheme.layout().bits_of("dc") > 0;
        if !has_dc && scheme.layout().bits_of("worker") == 0 {
            return Ok(());
        }
        let mut workers: Vec<_> = self.0.into_iter().collect();
        workers.sort_unstable_by_key(|&(worker, ids)| (Reverse(ids), worker));
        let is_full = workers.len() >= WORKERS_MAX;
        let at_least = if is_full { "at least " } else { "" };
        writeln!(report, "\nids of {at_least}{} workers:", workers.len())?;
        let mut add_line = |name: String, ids: u64| {
            let share = ids as f64 * 100.0 / total as f64;
            writeln!(report, "{name:<24} {share:5.1} % {ids:>12}")
        };
        let mut others = total;
        for &((dc, worker), ids) in workers.iter().take(LINES_MAX) {
            let dc = if has_dc {
                format!("dc {dc} ")
            } else {
                String::new()
            };
            add_line(format!("{dc}worker {worker}"), ids)?;
            others -= ids;
        }
        match others {
            0 => Ok(()),
            _ => add_line(format!("{} others", workers.len() - LINES_MAX), others),
        }
    }
}
