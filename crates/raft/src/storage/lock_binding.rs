//! Binds a data directory to the inode of its lock file.
//!
//! Invariant: a process uses a data directory only if it is the one that was used before, not a
//! copy of it. Schedule that breaks Raft without it: the directory of store 3 is copied while store
//! 3 runs, and a second store is started on the copy. Both have the same id, incarnation and vote,
//! and may lead the same term with different logs. The lock does not help, because the copy has a
//! lock of its own.
//!
//! A copied file has another inode, so the copied binding does not match. Only the inode counts,
//! not the device and not the host. A volume that is attached to another host, or returns as
//! another device, keeps its inodes, and the store starts. A clone of a whole volume keeps them as
//! well, and is found by its votes (`duplicate_id.rs`). After a move on purpose the operator
//! confirms it once.
//!
//! A directory without a binding was last used by a build that did not write one. The store binds
//! it at its next start.

use std::path::PathBuf;

use seqsvr_core::planted;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::record;
use crate::storage::data_dir::{self, DataDir};

/// Binding of a data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LockBinding {
    /// Inode of the lock file.
    pub(crate) inode: u64,
}

impl LockBinding {
    /// Checks the directory before anything in it is used. Returns whether it has to be bound.
    pub(crate) fn verify(directory: &DataDir, moved: bool) -> Result<bool, Error> {
        let path = binding_path(directory);
        let Some(bytes) = data_dir::read_if_exists(&path)? else {
            return Ok(true);
        };
        let bound: LockBinding = record::decode(&bytes).map_err(Error::record(&path))?;
        let found = directory.lock_inode()?;
        if bound.inode == found || planted!(TrustCopies) {
            return Ok(false);
        }
        let dir = directory.root().to_owned();
        if moved {
            tracing::warn!(data_dir = %dir.display(), "data directory was moved: binding it to its new place");
            return Ok(true);
        }
        Err(Error::Copied {
            dir,
            bound: bound.inode,
            found,
        })
    }

    /// Binds the directory to the lock file that it has now.
    pub(crate) fn store(directory: &DataDir) -> Result<(), Error> {
        let inode = directory.lock_inode()?;
        data_dir::replace_record(&binding_path(directory), &LockBinding { inode })
    }
}

fn binding_path(directory: &DataDir) -> PathBuf {
    directory.root().join("binding")
}
