//! How many ids each worker made.

use std::collections::HashMap;
use std::io;

use seqsvr_ids::presets::IdScheme;

use crate::output::stdout;

/// Workers that are counted one by one. The ids of further ones are among the others, so that a
/// wrong preset cannot use up the memory.
const WORKERS_MAX: usize = 1 << 22;
/// Workers that are printed, those with the most ids first.
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

    /// Prints a line for each of the first workers, and one for the others.
    pub(super) fn print(self, scheme: &IdScheme, total: u64) -> io::Result<()> {
        let has_field = |name| scheme.layout().bits_of(name) > 0;
        if !has_field("dc") && !has_field("worker") {
            return Ok(());
        }
        let mut workers: Vec<_> = self.0.into_iter().collect();
        workers.sort_unstable_by_key(|&(worker, ids)| (u64::MAX - ids, worker));
        let shown = workers.iter().take(LINES_MAX);
        let shown = shown.map(|&((dc, worker), ids)| match has_field("dc") {
            true => (format!("dc {dc} worker {worker}"), ids),
            false => (format!("worker {worker}"), ids),
        });
        let mut lines: Vec<(String, u64)> = shown.collect();
        let others = total - lines.iter().map(|(_, ids)| ids).sum::<u64>();
        if others > 0 {
            let count = workers.len() - lines.len();
            lines.push((format!("{count} others"), others));
        }
        let at_least = if workers.len() < WORKERS_MAX {
            ""
        } else {
            "at least "
        };
        stdout::print_text(format_args!(
            "\nids of {at_least}{} workers:",
            workers.len()
        ))?;
        for (name, ids) in lines {
            let share = ids as f64 * 100.0 / total as f64;
            stdout::print_line(format_args!("{name:<24} {share:5.1} % {ids:>12}"))?;
        }
        Ok(())
    }
}
