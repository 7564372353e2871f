//! Opens the files of `raft-log`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) use raft_log::RaftLog;
pub(super) use raft_log::api::raft_log_writer::RaftLogWriter;
use seqsvr_net::is_out_of_descriptors;

use super::codec::LogTypes;
use super::durable_tail;
use crate::error::Error;
use crate::record;
use crate::storage::data_dir::{self, DataDir, LOG_FILE_EXTENSION};

/// Cache for older entries, in bytes; entries younger than the last closed file are always in
/// memory.
const LOG_CACHE_BYTES: usize = 32 << 20;
/// Time for which the writer waits for more requests before a sync; it takes queued ones anyway.
const FLUSH_BATCH_WAIT: Duration = Duration::from_micros(50);

/// Returns whether any log file exists.
pub(super) fn exists(path: &Path) -> Result<bool, Error> {
    let files = data_dir::list_files_of(path, LOG_FILE_EXTENSION)?;
    Ok(!files.is_empty())
}

/// Opens the log, or makes it.
pub(super) fn open(
    directory: &DataDir,
    path: &Path,
    file_bytes: usize,
) -> Result<RaftLog<LogTypes>, Error> {
    durable_tail::make_durable(path)?;
    let dir = path
        .to_str()
        .ok_or_else(|| Error::Options(format!("{} is not valid UTF-8", path.display())))?;
    let mut config = raft_log::Config::new(dir);
    config.log_cache_capacity = Some(LOG_CACHE_BYTES);
    config.wal.read_buffer_size = Some(1 << 20);
    config.wal.chunk_max_size = Some(file_bytes);
    config.wal.flush_batch_wait = Some(FLUSH_BATCH_WAIT);
    RaftLog::open(Arc::new(config)).map_err(|e| match e.kind() {
        io::ErrorKind::WouldBlock => Error::Locked(directory.root().to_owned()),
        _ => open_error(path, e),
    })
}

/// Restores the error of this crate. `raft-log` passes it on as text, so only kind and text are
/// left of it.
fn open_error(path: &Path, error: io::Error) -> Error {
    if let Some(version) = record::parse_unknown_version(&error.to_string()) {
        return Error::Version {
            file: path.to_owned(),
            version,
        };
    }
    match error.kind() {
        _ if is_out_of_descriptors(&error) => Error::io("cannot open log", path)(error),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::Other => {
            Error::damaged(path, error)
        }
        _ => Error::io("cannot open log", path)(error),
    }
}
