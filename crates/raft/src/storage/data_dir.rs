//! The data directory: its files, its lock, and how a change of it becomes durable.
//!
//! ```text
//! lock         held by the one process that uses the directory
//! identity     node id, incarnation, cluster
//! binding      inode of the lock file, which distinguishes a copy from the original
//! founder      the cluster that this node was requested to make, if it was
//! log/         entries and vote
//! state/       rows of the state; not trusted, rebuilt from snapshot and log if in doubt
//! state.bad.N  state directories that were quarantined
//! snapshots/   newest snapshot
//! ```
//! Invariant: the process that reads or writes anything here holds `lock`.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// A data directory that this process has locked. Clones share the lock; the last one drops it.
#[derive(Clone, Debug)]
pub(crate) struct DataDir {
    root: Arc<PathBuf>,
    lock: Arc<File>,
}

impl DataDir {
    /// Locks the directory, and makes it if absent.
    pub(crate) fn open(root: &Path) -> Result<DataDir, Error> {
        fs::create_dir_all(root).map_err(Error::io("cannot make directory", root))?;
        let path = root.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(Error::io("cannot open", &path))?;
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
            fs::create_dir_all(&part).map_err(Error::io("cannot make directory", &part))?;
        }
        sync_dir(root)?;
        if let Some(parent) = root.parent().filter(|p| !p.as_os_str().is_empty()) {
            sync_dir(parent)?;
        }
        Ok(directory)
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
        self.root.join("identity")
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

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(dir: &Path) -> Result<(), Error> {
    seqsvr_os::sync_dir(dir).map_err(Error::io("cannot sync directory", dir))
}

/// Replaces a small file: writes a new one aside, syncs it, renames it, and syncs the directory.
/// After a power cut the file is the old or the new one, never a mixture.
pub(crate) fn replace_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let tmp = path.with_extension("tmp");
    let write = || {
        let mut file = File::create(&tmp)?;
        file.write_all(bytes)?;
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

/// Returns the files of a directory, sorted by name.
pub(crate) fn list_files(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir)? {
            files.push(entry?.path());
        }
        files.sort();
        Ok(files)
    };
    read().map_err(Error::io("cannot list", dir))
}
