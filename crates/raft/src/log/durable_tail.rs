//! Makes durable all that the start is about to read.
//!
//! Invariant: every byte of the log that the start reads is on the disk, or the start fails.
//!
//! Schedule that breaks it without any sync: a follower writes an entry and is killed before its
//! fdatasync. After the restart it finds the entry in the page cache and acknowledges it. The
//! leader commits it, the power goes off, and an acknowledged entry is lost.
//!
//! Schedule that breaks it with a sync alone: the fdatasync fails. ext4 and XFS then mark the pages
//! clean and keep their new content. So the sync of the next start has nothing to write and
//! succeeds, while the disk still holds the old content. The restarted follower finds the entry,
//! and the rest is as above. Writing the same bytes over the file is not enough either. ext4 (seen
//! on Linux 6.18) skips the conversion of an unwritten extent whose first write failed, and never
//! repeats it for the cached block. It reads zeros from it once the cache is gone, though the
//! second write and its sync succeeded. So the tail is copied to a new file, which is synced and
//! renamed.
//!
//! Only the tail can differ from the disk. raft-log writes the first record of a file after the
//! sync of the file before it succeeded, and its writer ends with the first sync that fails
//! (chunked-wal 0.2.3, `chunked-wal:wal/chunked_wal.rs` `try_close_full_chunk`,
//! `chunked-wal:wal/flush_worker.rs` `run_inner`). So each file before the last one that holds
//! anything was synced without a failure.
//!
//! Names and lengths need no such care: they are metadata, and a journal that cannot be written
//! ends the file system, not one sync.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::error::Error;
use crate::storage::data_dir::{self, LOG_FILE_EXTENSION};

/// Name of the copy while it is written. raft-log ignores it.
const TAIL_COPY_NAME: &str = "tail.tmp";

/// Bytes that a disk writes wholly or not at all.
const SECTOR_BYTES: usize = 512;
/// Most zeros that a whole record may end in.
const ZEROS_MIN: usize = 16;

/// Replaces the tail of the log in `path` with a copy of itself, and syncs all other files.
///
/// # Errors
/// Fails if the disk does not accept them.
pub(super) fn make_durable(path: &Path) -> Result<(), Error> {
    let copy = path.join(TAIL_COPY_NAME);
    // An earlier start may have ended before the rename.
    if copy.exists() {
        fs::remove_file(&copy).map_err(Error::io("cannot delete", &copy))?;
    }
    let files = data_dir::list_files_of(path, LOG_FILE_EXTENSION)?;
    let mut tail = None;
    for file in &files {
        let open = File::open(file).map_err(Error::io("cannot open", file))?;
        open.sync_all().map_err(Error::io("cannot sync", file))?;
        let about = open.metadata().map_err(Error::io("cannot read", file))?;
        if about.len() > 0 {
            tail = Some(file);
        }
    }
    if let Some(tail) = tail {
        write_copy(tail, &copy).map_err(Error::io("cannot copy the end of the log to", &copy))?;
        fs::rename(&copy, tail).map_err(Error::io("cannot rename to", tail))?;
    }
    data_dir::sync_dir(path)
}

/// Copies a file, which is no longer than a log file may be, and syncs the copy. The bytes go
/// through memory: a copy within the kernel may share the blocks of the file.
fn write_copy(file: &Path, copy: &Path) -> io::Result<()> {
    let bytes = fs::read(file)?;
    let mut to = File::create_new(copy)?;
    to.write_all(trim_unwritten_end(&bytes))?;
    to.sync_all()
}

/// Returns the written bytes, without sectors at the end that were not written.
///
/// ext4 may make a file longer before its new block has its content. After a power cut the block
/// reads as zeros, and the record that began in the block before it is torn. raft-log drops a torn
/// record if the file ends in it, or if all from its first byte is zero. It takes this one for
/// damage, and the store would not start. Without the zeros the file ends in it. No acknowledged
/// record is lost: the sync of such a record never returned.
///
/// A whole record is never cut: its last 8 bytes are a checksum, so it does not end in more zeros
/// than [`ZEROS_MIN`].
fn trim_unwritten_end(bytes: &[u8]) -> &[u8] {
    let written = bytes.iter().rposition(|byte| *byte != 0);
    let written = written
        .map_or(0, |at| at + 1)
        .next_multiple_of(SECTOR_BYTES);
    match bytes.len().saturating_sub(written) > ZEROS_MIN {
        true => &bytes[..written],
        false => bytes,
    }
}
