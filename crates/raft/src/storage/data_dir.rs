//! The data directory: its files, its lock, and how a change of it becomes durable.
//!
//! ```text
//! lock         held by the one process that uses the directory
//! identity     node id, incarnation, cluster; or the mark of a restore that is under way
//! binding      inode of the lock file, which distinguishes a copy from the original
//! founder      the cluster that this node was requested to make, if it was
//! log/         entries and vote
//! state/       rows of the state; not trusted, rebuilt from snapshot and log if in doubt
//! state.bad.N  state directories that were quarantined
//! snapshots/   newest snapshot
//! ```
//! Invariants:
//! - The process that reads or writes anything here holds `lock`.
//! - What it makes here is closed to other users: state and log hold the proofs of sessions. The
//!   mode of the directories ensures it also for the files of the libraries.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use crate::error::Error;
use crate::record;

/// Name of the identity file.
pub(crate) const IDENTITY_NAME: &str = "identity";
/// Extension of the files of the log, as raft-log names them.
pub(crate) const LOG_FILE_EXTENSION: &str = "wal";

/// A data directory that this process has locked. Clones share the lock; the last one drops it.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: Arc<PathBuf>,
    lock: Arc<File>,
}

impl DataDir {
    /// Locks the directory, and makes it if absent.
    pub(crate) fn open(root: &Path) -> Result<DataDir, Error> {
        make_root(root)?;
        let path = root.join("lock");
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(&path);
        let lock = lock.map_err(Error::io("cannot open", &path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::Locked(root.to_owned())),
            Err(errno) => return Err(Error::io("cannot lock", &path)(errno.into())),
        }
        let directory = DataDir {
            root: Arc::new(root.to_owned()),
            lock: Arc::new(lock),
        };
        for part in [directory.log_path(), directory.snapshots_path()] {
            make_private_dir(&part)?;
        }
        sync_dir(root)?;
        Ok(directory)
    }

    /// Returns whether there is neither a log nor a snapshot.
    pub(crate) fn has_no_content(&self) -> Result<bool, Error> {
        let files = [
            list_files(&self.log_path())?,
            list_files(&self.snapshots_path())?,
        ];
        Ok(files.iter().all(Vec::is_empty))
    }

    /// Returns a reference that is empty once the lock has no holder.
    pub(crate) fn watch_lock(&self) -> std::sync::Weak<File> {
        Arc::downgrade(&self.lock)
    }

    /// Returns the inode of the lock file.
    pub(crate) fn lock_inode(&self) -> Result<u64, Error> {
        let about = self.lock.metadata();
        let about = about.map_err(Error::io("cannot read", &self.root.join("lock")))?;
        Ok(about.ino())
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn identity_path(&self) -> PathBuf {
        self.root.join(IDENTITY_NAME)
    }

    pub(crate) fn log_path(&self) -> PathBuf {
        self.root.join("log")
    }

    pub(crate) fn state_path(&self) -> PathBuf {
        self.root.join("state")
    }

    pub(crate) fn snapshots_path(&self) -> PathBuf {
        self.root.join("snapshots")
    }
}

/// Makes a data directory unless it exists, and makes its name durable.
///
/// Invariant: so is the name of each directory that is made above it. Schedule that breaks it: a
/// restore into `new/r1` makes both and succeeds, the power goes off, and `new` is gone. The store
/// that starts on `new/r1` is empty, and its cluster begins at 1.
pub(crate) fn make_root(root: &Path) -> Result<(), Error> {
    let is_new = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
    let new: Vec<&Path> = root.ancestors().take_while(is_new).collect();
    make_private_dir(root)?;
    for dir in new.iter().rev() {
        let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
        sync_dir(parent.unwrap_or(Path::new(".")))?;
    }
    match root.parent().filter(|p| !p.as_os_str().is_empty()) {
        // An earlier process may have made it and ended.
        Some(parent) if new.is_empty() => {
            seqsvr_os::sync_dir(parent).map_err(Error::io("cannot sync the name of", root))
        }
        _ => Ok(()),
    }
}

/// Makes a directory that only this user may enter, unless it exists.
fn make_private_dir(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(Error::io("cannot make directory", dir))
}

/// Creates a file that does not exist, readable by this user only.
pub(crate) fn create_new_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(0o600);
    options.open(path)
}

/// Creates or empties a file. A new file is readable by this user only.
pub(crate) fn create_private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(true).write(true).mode(0o600);
    options.open(path)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    seqsvr_os::sync_dir(dir).map_err(Error::io("cannot sync directory", dir))
}

/// Returns the content of a small file; None if there is no such file.
pub(crate) fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("cannot read", path)(e)),
    }
}

/// Replaces a small file by the record of a value: writes a new one aside, syncs it, renames it,
/// and syncs the directory. After a power cut the file is the old or the new one, never a mixture.
pub(crate) fn replace_record<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let bytes = record::encode(value).map_err(Error::io("cannot encode", path))?;
    let tmp = path.with_extension("tmp");
    let write = || {
        let mut file = create_private_file(&tmp)?;
        file.write_all(&bytes)?;
        seqsvr_os::sync_file(&file)
    };
    write().map_err(Error::io("cannot write", &tmp))?;
    publish_file(&tmp, path)
}

/// Gives a synced file its final name, durably.
pub(crate) fn publish_file(tmp: &Path, path: &Path) -> Result<(), Error> {
    fs::rename(tmp, path).map_err(Error::io("cannot rename to", path))?;
    sync_dir(path.parent().unwrap_or(Path::new(".")))
}

/// Returns the files of a directory that have this extension, sorted by name.
pub(crate) fn list_files_of(dir: &Path, extension: &str) -> Result<Vec<PathBuf>, Error> {
    let mut files = list_files(dir)?;
    files.retain(|file| file.extension().is_some_and(|e| e == extension));
    Ok(files)
}

/// Returns the files of a directory, sorted by name.
pub(crate) fn list_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = || -> io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir)? {
            files.push(entry?.path());
        }
        files.sort();
        Ok(files)
    };
    read().map_err(Error::io("cannot list", dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schedule: a server that another program embeds has the usual umask 022. A user of the host
    /// reads the proof of a session from a snapshot.
    #[test]
    fn new_data_dir_is_closed_to_other_users() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("parent/data");
        let directory = DataDir::open(&root).unwrap();
        replace_record(&directory.identity_path(), &"id").unwrap();
        create_private_file(&directory.snapshots_path().join("s")).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let dirs = [
            dir.path().join("parent"),
            root.clone(),
            directory.log_path(),
            directory.snapshots_path(),
        ];
        for path in dirs {
            assert_eq!(mode(&path), 0o700, "{}", path.display());
        }
        let files = [
            root.join("lock"),
            directory.identity_path(),
            directory.snapshots_path().join("s"),
        ];
        for path in files {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
        }
    }
}
