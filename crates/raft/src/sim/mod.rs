//! Simulated faults of a node's disks, and the view of them for judges. Only with `--cfg sim`.

use std::path::Path;

use seqsvr_os::simulated_files;

use crate::log::memory::disk::{self, SyncConduct};
use crate::state::memory_rows::{self, MemoryRowsCrash};
use crate::types::{CommittedLeaderId, LogId};

pub use crate::node::sim_view::{Entry, NodeView};

/// Forgets the disks of this thread, at the start of a run.
pub fn forget_all() {
    disk::forget_all();
    memory_rows::forget_all();
    simulated_files::reset_durable();
}

/// Effect of a crash on the rows of a node. Log, vote and snapshots are not rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowsCrash {
    /// The last steps are lost: up to this number.
    Lose(u64),
    /// All rows are lost.
    Remove,
    /// One value is not what was written.
    Damage,
}

/// Kills the process that uses a data directory.
pub fn kill(data_dir: &Path, rows: RowsCrash, mut draw: impl FnMut(u64) -> u64) {
    disk::kill(&data_dir.join("log"), |n| draw(n as u64 + 1) as usize);
    crash_rows(data_dir, rows, &mut draw);
}

/// Cuts the power of the machine that has a data directory.
///
/// # Errors
/// Those of the file system.
pub fn cut_power(
    data_dir: &Path,
    rows: RowsCrash,
    mut draw: impl FnMut(u64) -> u64,
) -> std::io::Result<()> {
    disk::cut_power(&data_dir.join("log"), |n| draw(n as u64 + 1) as usize);
    crash_rows(data_dir, rows, &mut draw);
    let dirs = [data_dir.to_owned(), data_dir.join("snapshots")];
    simulated_files::cut_power(&dirs, draw)
}

fn crash_rows(data_dir: &Path, rows: RowsCrash, draw: &mut impl FnMut(u64) -> u64) {
    let path = data_dir.join("state");
    match rows {
        RowsCrash::Lose(most) => {
            memory_rows::crash(&path, MemoryRowsCrash::Lose(draw(most + 1) as usize))
        }
        RowsCrash::Damage => memory_rows::crash(&path, MemoryRowsCrash::Damage(draw(u64::MAX))),
        // The next open makes new ones. There may be none yet.
        RowsCrash::Remove => drop(std::fs::remove_dir_all(&path)),
    }
}

/// Sets how long the syncs of a log take (milliseconds, shortest and longest), and whether all
/// syncs fail.
pub fn set_syncs(data_dir: &Path, ms: (u64, u64), fails: bool) {
    disk::set_conduct(&data_dir.join("log"), SyncConduct { ms, fails });
    simulated_files::set_failing(data_dir, fails);
}

/// Deletes a data directory.
///
/// # Errors
/// Those of the file system.
pub fn remove(data_dir: &Path) -> std::io::Result<()> {
    disk::remove(&data_dir.join("log"));
    simulated_files::forget_below(data_dir);
    match data_dir.exists() {
        true => std::fs::remove_dir_all(data_dir),
        false => Ok(()),
    }
}

/// Copies a data directory to a place where none is. Its process may run.
///
/// # Errors
/// Those of the file system.
pub fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for part in ["", "log", "state", "snapshots"] {
        let (from, to) = (from.join(part), to.join(part));
        // A killed store may have lost its rows.
        if !from.exists() {
            continue;
        }
        std::fs::create_dir_all(&to)?;
        for entry in std::fs::read_dir(&from)? {
            let entry = entry?;
            if entry.metadata()?.is_file() {
                std::fs::copy(entry.path(), to.join(entry.file_name()))?;
            }
        }
        simulated_files::sync_all(&to)?;
    }
    disk::copy(&from.join("log"), &to.join("log"));
    memory_rows::copy(&from.join("state"), &to.join("state"));
    Ok(())
}

/// Returns whether an entry is durable in the log or in a snapshot of a data directory.
pub fn has_durable(data_dir: &Path, entry: Entry) -> bool {
    let id = LogId {
        leader_id: CommittedLeaderId::new(entry.term),
        index: entry.index,
    };
    let in_log = disk::with_durable(&data_dir.join("log"), |log| {
        let is_purged = log.state.purged().is_some_and(|purged| purged.0 >= id);
        let found = log.entries.get(&id.index);
        is_purged || found.is_some_and(|(found, _)| found.0 == id)
    });
    in_log == Some(true) || newest_snapshot(data_dir).is_some_and(|snapshot| snapshot >= id.index)
}

/// A vote on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DurableVote {
    /// Its term.
    pub term: u64,
    /// The node that has the vote.
    pub node: u64,
    /// Whether that node leads the term.
    pub is_won: bool,
}

impl DurableVote {
    /// Returns whether the disk that has this vote may have the other one later. A node that voted
    /// for itself may follow the node that has won the term.
    pub fn may_become(self, later: DurableVote) -> bool {
        let has_won = later.is_won && !self.is_won;
        let is_same = later.node == self.node && later.is_won >= self.is_won;
        later.term > self.term || (later.term == self.term && (has_won || is_same))
    }
}

/// Returns the durable vote of a data directory. The default: there is none.
pub fn durable_vote(data_dir: &Path) -> DurableVote {
    let vote = disk::with_durable(&data_dir.join("log"), |log| log.state.vote().cloned());
    let vote = vote.flatten().map(|vote| DurableVote {
        term: vote.0.leader_id.term,
        node: vote.0.leader_id.voted_for,
        is_won: vote.0.committed,
    });
    vote.unwrap_or_default()
}

/// Returns the index of the newest durable snapshot.
fn newest_snapshot(data_dir: &Path) -> Option<u64> {
    let names = simulated_files::durable_names(&data_dir.join("snapshots"));
    let index = |name: &str| {
        let stem = name.strip_suffix(".snapshot")?;
        stem.split_once('-')?.1.parse().ok()
    };
    names.iter().filter_map(|name| index(name)).max()
}
