//! How many ids each worker made.

use std::collections::HashMap;
use std::io;

use seqsvr_ids::presets::IdScheme;

use crate::output::stdout;

/// Workers that are counted one by one. The ids of further ones are only summed, so that a wrong
/// preset cannot use up the memory.
const WORKERS_MAX: usize = 1 << 22;
/// Workers that are printed, those with the most ids first.
const LINES_MAX: usize = 20;

/// Counts of ids by data center and worker.
#[derive(Default)]
pub(super) struct WorkerShares {
    ids: HashMap<(u32, u32), u64>,
    uncounted_ids: u64,
}

impl WorkerShares {
    pub(super) fn add(&mut self, dc: u32, worker: u32) {
        let is_full = self.ids.len() >= WORKERS_MAX;
        match self.ids.get_mut(&(dc, worker)) {
            Some(count) => *count += 1,
            None if is_full => self.uncounted_ids += 1,
            None => _ = self.ids.insert((dc, worker), 1),
        }
    }

    /// Prints a line for each of the first workers, and one for the others.
    pub(super) fn print(self, scheme: &IdScheme, total: u64) -> io::Result<()> {
        let has_field = |name| scheme.layout().bits_of(name) > 0;
        if !has_field("dc") && !has_field("worker") {
            return Ok(());
        }
        let share = |ids: u64| ids as f64 * 100.0 / total as f64;
        let mut workers: Vec<_> = self.ids.into_iter().collect();
        workers.sort_unstable_by_key(|&(worker, ids)| (u64::MAX - ids, worker));
        stdout::print_text(format_args!("\nids of {} workers:", workers.len()))?;
        for &((dc, worker), ids) in workers.iter().take(LINES_MAX) {
            let name = match has_field("dc") {
                true => format!("dc {dc} worker {worker}"),
                false => format!("worker {worker}"),
            };
            stdout::print_line(format_args!("{name:<24} {:5.1} % {ids:>12}", share(ids)))?;
        }
        let others = workers.len().saturating_sub(LINES_MAX);
        let others_ids = workers
            .iter()
            .skip(LINES_MAX)
            .map(|(_, ids)| ids)
            .sum::<u64>();
        if others > 0 {
            let name = format!("{others} others");
            let share = share(others_ids);
            stdout::print_line(format_args!("{name:<24} {share:5.1} % {others_ids:>12}"))?;
        }
        if self.uncounted_ids > 0 {
            let (name, ids) = ("further workers", self.uncounted_ids);
            stdout::print_line(format_args!("{name:<24} {:5.1} % {ids:>12}", share(ids)))?;
        }
        Ok(())
    }
}
