//! Reads the state in a store's data directory offline: for the case that a majority of the
//! directories is lost and no fresh backup exists.
//!
//! The state in one directory is not what the cluster acknowledged: it may lack entries that a lost
//! majority had. So it becomes a backup, and a restore with margins, never a member.
//!
//! Invariants:
//! - nothing that is salvaged is changed: the log is copied and the copy is opened, since opening a
//!   log drops a torn record and replaces its tail;
//! - no sequence is lower than any history of this log allows. Entries behind the last one known to
//!   be committed may have been committed. So they are applied as well, but not those commands that
//!   lower max_seq. Schedule that breaks it otherwise: the last entry closes a section at 100 and
//!   was never committed; its owner, whose window reached 1,000, continued from there under another
//!   leader.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::SystemTime;

use openraft::EntryPayload;
use openraft::storage::{RaftLogReader, RaftLogStorage};
use seqsvr_core::command::{Batch, Command};
use seqsvr_core::state::State;

use crate::backup::{BackupHeader, StateBackup, UsageReport};
use crate::error::Error;
use crate::log::LogStore;
use crate::state::snapshot;
use crate::storage::data_dir::{self, DataDir, LOG_FILE_EXTENSION};
use crate::storage::identity;
use crate::types::Membership;

/// Size of a log file; the copy is only read.
const LOG_FILE_BYTES: usize = 4 << 20;

/// Content of a data directory.
#[derive(Debug)]
pub struct SalvagedState {
    /// Its state. The pace is unknown; the time is when the log was last written.
    pub backup: StateBackup,
    /// Entries in it that are not known to be committed.
    pub unconfirmed: u64,
}

/// Reads the directory of a store that does not run. `scratch` is a directory that does not exist;
/// it is made for the copy of the log, and the caller deletes it.
///
/// # Errors
/// The directory is in use or holds no store, has no state, or is damaged.
pub async fn read_data_dir(data_dir: &Path, scratch: &Path) -> Result<SalvagedState, Error> {
    let salvaged = salvage(data_dir, scratch).await;
    salvaged.map_err(|error| {
        error.of_command(
            "run `seqsvr backup` again",
            "use the data directory of another store, or an older backup",
        )
    })
}

async fn salvage(data_dir: &Path, scratch: &Path) -> Result<SalvagedState, Error> {
    if !data_dir.join(data_dir::IDENTITY_NAME).exists() {
        return Err(Error::Options(format!(
            "{} is not the data directory of a store: it has no identity file",
            data_dir.display()
        )));
    }
    let directory = DataDir::open(data_dir)?;
    let path = directory.identity_path();
    let identity = fs::read(&path).map_err(Error::io("cannot read", &path))?;
    identity::reject_restore_mark(&directory, &identity)?;
    let mut state = State::default();
    let mut last = None;
    let mut highest = None;
    if let Some((meta, of_snapshot)) = snapshot::read_newest(&directory)? {
        (last, state) = (meta.last_log_id, of_snapshot);
        highest = highest_id(meta.last_membership.membership());
    }
    fs::create_dir(scratch).map_err(Error::io("cannot make directory", scratch))?;
    let copy = DataDir::open(scratch)?;
    let taken_at = copy_log(&directory, &copy)?;
    let mut log = LogStore::open(&copy, LOG_FILE_BYTES)?;
    let reading = |e| Error::reading(&directory.log_path())(e);
    let held = log.get_log_state().await.map_err(reading)?;
    if held.last_purged_log_id > last {
        return Err(Error::damaged(
            &directory.snapshots_path(),
            "the newest snapshot is older than where the log begins: a snapshot is missing",
        ));
    }
    let committed = log.read_committed().await.map_err(reading)?;
    let mut unconfirmed = 0;
    let end = held.last_log_id.map_or(0, |id| id.index + 1);
    for index in last.map_or(0, |id| id.index + 1)..end {
        let entry = log.try_get_log_entries(index..=index).await;
        let entry = entry.map_err(reading)?.pop();
        let entry = entry.ok_or_else(|| {
            Error::damaged(&directory.log_path(), format!("entry {index} is missing"))
        })?;
        let confirmed = Some(entry.log_id) <= committed;
        unconfirmed += u64::from(!confirmed);
        if let EntryPayload::Membership(membership) = &entry.payload {
            highest = highest_id(membership);
        }
        if let EntryPayload::Normal(proposal) = &entry.payload {
            let term = entry.log_id.leader_id.term;
            let batch = match confirmed {
                true => Batch::clone(&proposal.0),
                false => without_lowering(&proposal.0),
            };
            state.apply(term, &batch, &mut BTreeSet::new());
        }
        if let Some(highest) = highest {
            state.record_store_id(highest, &mut BTreeSet::new());
        }
        last = Some(entry.log_id);
    }
    let (Some(cluster), Some(last)) = (state.cluster().map(|c| c.id), last) else {
        return Err(Error::Options(format!(
            "{} has no state: its store never belonged to a cluster",
            data_dir.display()
        )));
    };
    if let Some(stamped) = log.identity_stamp().and_then(|stamp| stamp.cluster)
        && stamped != cluster
    {
        let what = format!("it is of cluster {stamped}, and the snapshot is of cluster {cluster}");
        return Err(Error::damaged(&directory.log_path(), what));
    }
    let about = BackupHeader {
        cluster,
        term: last.leader_id.term,
        index: last.index,
        usage: UsageReport {
            taken_at,
            ..UsageReport::default()
        },
    };
    Ok(SalvagedState {
        backup: StateBackup {
            header: about,
            state: state.for_backup(),
        },
        unconfirmed,
    })
}

/// Returns the highest store id of a membership.
fn highest_id(membership: &Membership) -> Option<u64> {
    membership.nodes().map(|(id, _)| *id).max()
}

/// Returns the same commands without those parts that lower a sequence: closes of sections, and the
/// high-water marks of slots that are given up or moved.
fn without_lowering(batch: &Batch) -> Batch {
    let mut batch = batch.clone();
    batch.commands.retain_mut(|command| match command {
        Command::CloseSection { .. } => false,
        Command::CloseSession {
            high_water_marks, ..
        } => {
            high_water_marks.clear();
            true
        }
        Command::MoveSlot {
            high_water_marks, ..
        } => {
            high_water_marks.clear();
            true
        }
        _ => true,
    });
    batch
}

/// Copies the log files; returns when the newest of them was last written, in seconds since 1970.
fn copy_log(from: &DataDir, to: &DataDir) -> Result<u64, Error> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for file in data_dir::list_files_of(&from.log_path(), LOG_FILE_EXTENSION)? {
        let Some(name) = file.file_name() else {
            continue;
        };
        let about = File::open(&file).and_then(|f| f.metadata());
        let about = about.map_err(Error::io("cannot read", &file))?;
        newest = newest.max(about.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        let copy = to.log_path().join(name);
        fs::copy(&file, &copy).map_err(Error::io("cannot copy the log to", &copy))?;
    }
    let since = newest.duration_since(SystemTime::UNIX_EPOCH);
    Ok(since.map_or(0, |since| since.as_secs()))
}
