//! Backup files: the state at one moment, kept by people.
//!
//! ```text
//! "SEQBKUP\n" | header record | rows record … | trailer record
//! "SEQBKU2\n" | header record | peaks record | rows record … | trailer record
//! ```
//!
//! The second form also says how many numbers the busiest minute added; the first one stays
//! readable. Rows and trailer are those of a snapshot (`state/snapshot.rs`). The header names the
//! cluster and the last entry, and has values that help to choose the margins of a restore.
//!
//! Invariant: [`read_backup_file`] returns what was written or an error. Every byte is under a
//! checksum, and a file that was cut short or that continues after its end is rejected. A backup is
//! never opened as a snapshot, nor a snapshot as a backup: a node that continued from a state that
//! old would hand out numbers twice.
//!
//! A backup holds no session: the nonce of one lets its reader take the slots of an AllocSvr. A
//! file of an earlier build has sessions; a restore drops them.

pub mod restore;
pub mod salvage;

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::{Path, PathBuf};

use seqsvr_core::ids::ClusterId;
use seqsvr_core::state::State;
use serde::{Deserialize, Serialize};

use crate::record::{self, RecordError};
use crate::state::snapshot::{invalid_data, read_rows, write_rows};
pub use crate::storage::usage_report::UsageReport;

const MAGIC: &[u8; 8] = b"SEQBKUP\n";
/// Beginning of a backup that holds [`UsageReport::busiest_minute`].
const MAGIC_PEAKS: &[u8; 8] = b"SEQBKU2\n";

/// Description of a backup: its cluster, its last entry, and what the leader had seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupHeader {
    /// The cluster.
    pub cluster: ClusterId,
    /// Term of the last entry in it.
    pub term: u64,
    /// Index of the last entry in it.
    pub index: u64,
    /// What the leader had seen.
    pub usage: UsageReport,
}

/// A backup in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateBackup {
    /// Its description.
    pub header: BackupHeader,
    /// The state.
    pub state: State,
}

#[derive(Serialize, Deserialize)]
struct BackupHeaderRecord {
    about: BackupHeader,
    rows: u64,
}

/// Reason why a backup file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not what was written.
    #[error("{file} is not a complete backup ({what}): use another copy or an older backup")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Written by a newer build.
    #[error(
        "{file}: format version {version} is unknown to this build: use the newer build that wrote it"
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u8,
    },
    /// The operating system returned an error.
    #[error("cannot read {file}: {reason}")]
    Io {
        /// The file.
        file: PathBuf,
        /// Its error.
        reason: io::Error,
    },
}

impl StateBackup {
    /// Writes the backup; `out` gets many small writes.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let peak = &self.header.usage.busiest_minute;
        out.write_all(if peak.is_empty() { MAGIC } else { MAGIC_PEAKS })?;
        let header = BackupHeaderRecord {
            about: self.header.clone(),
            rows: self.state.rows_len(),
        };
        let level = self.state.format_level();
        out.write_all(&record::encode_at_level(level, &header)?)?;
        if !peak.is_empty() {
            out.write_all(&record::encode_at_level(level, peak)?)?;
        }
        write_rows(out, &self.state)
    }
}

/// Reads a backup to its end and checks all of it.
///
/// # Errors
/// See [`Error`].
pub fn read_backup_file(file: &Path) -> Result<StateBackup, Error> {
    let read = || read_backup(&mut BufReader::new(File::open(file)?));
    read().map_err(|reason| to_backup_error(file, reason))
}

/// Reads a backup that is not in a file to its end and checks all of it; `input` gets many small
/// reads.
///
/// # Errors
/// See [`Error`].
pub fn read_backup_stream(mut input: impl Read) -> Result<StateBackup, Error> {
    read_backup(&mut input).map_err(|reason| to_backup_error(Path::new("the stream"), reason))
}

fn to_backup_error(file: &Path, reason: io::Error) -> Error {
    let damage = reason
        .get_ref()
        .and_then(|e| e.downcast_ref::<RecordError>());
    let file = file.to_owned();
    match (damage, reason.kind()) {
        (Some(RecordError::Version(version)), _) => Error::Version {
            file,
            version: *version,
        },
        (_, io::ErrorKind::UnexpectedEof) => Error::Damaged {
            file,
            what: String::from("it is cut short"),
        },
        (_, io::ErrorKind::InvalidData) => Error::Damaged {
            file,
            what: reason.to_string(),
        },
        _ => Error::Io { file, reason },
    }
}

fn read_backup(input: &mut impl Read) -> io::Result<StateBackup> {
    let mut magic = [0; 8];
    input.read_exact(&mut magic)?;
    if &magic != MAGIC && &magic != MAGIC_PEAKS {
        return Err(invalid_data("it does not begin like a backup"));
    }
    let BackupHeaderRecord { mut about, rows } = record::read_value(input)?;
    if &magic == MAGIC_PEAKS {
        about.usage.busiest_minute = record::read_value(input)?;
    }
    let state = read_rows(input, rows)?;
    if state.cluster().map(|c| c.id) != Some(about.cluster) {
        return Err(invalid_data(
            "its rows are of another cluster than its header",
        ));
    }
    Ok(StateBackup {
        header: about,
        state,
    })
}
