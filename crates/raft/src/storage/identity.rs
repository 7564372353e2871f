//! Identity of this data directory: node, incarnation, and the one cluster it belongs to.
//!
//! Invariant: incarnation is drawn once, when the directory is new, and the cluster is adopted once
//! and permanently. Schedule that breaks Raft without it: a voter acknowledges entries and its disk
//! is wiped. It returns under its old id with an empty log and votes for a candidate that lacks
//! those entries. With the invariant the wiped directory has another incarnation than the
//! membership records. So no call reaches it as that voter, and it never learns a cluster.

use std::io::Write;
use std::path::Path;

use seqsvr_core::ids::ClusterId;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::record::{self, HasFormatLevel};
use crate::storage::data_dir::{self, DataDir};

/// Content of the identity file while a restore is under way. It is no record, so no build reads an
/// identity from it.
const RESTORE_MARK: &[u8] =
    b"This restore is incomplete: delete this directory, then run `seqsvr restore` again.\n";

/// Identity of a node's data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeIdentity {
    /// Node id.
    pub node: u64,
    /// Random number of the directory.
    pub incarnation: u64,
    /// The cluster; None until it is made or joined.
    pub cluster: Option<ClusterId>,
}

impl HasFormatLevel for NodeIdentity {}

impl NodeIdentity {
    /// Returns a new directory's identity.
    pub(crate) fn new(node: u64) -> NodeIdentity {
        NodeIdentity {
            node,
            incarnation: seqsvr_os::random_u64(),
            cluster: None,
        }
    }

    /// Returns the stored identity; None if there is none.
    pub(crate) fn load(directory: &DataDir, node: u64) -> Result<Option<NodeIdentity>, Error> {
        let path = directory.identity_path();
        let Some(bytes) = data_dir::read_if_exists(&path)? else {
            return Ok(None);
        };
        reject_restore_mark(directory, &bytes)?;
        let identity: NodeIdentity = record::decode(&bytes).map_err(Error::record(&path))?;
        if identity.node != node {
            return Err(Error::WrongNode {
                dir: directory.root().to_owned(),
                has: identity.node,
                requested: node,
            });
        }
        Ok(Some(identity))
    }

    /// Stores the identity durably.
    pub(crate) fn store(&self, directory: &DataDir) -> Result<(), Error> {
        data_dir::replace_record(&directory.identity_path(), self)
    }

    /// Checks whether the log beside this identity is this identity's log. `stamp` is what the log
    /// holds. It is written there before the identity, so a log without it is not (or no longer)
    /// that of this identity.
    pub(crate) fn check_log(&self, stamp: Option<NodeIdentity>, log: &Path) -> Result<(), Error> {
        match (self.cluster, stamp) {
            (None, None) => Ok(()),
            // The power went off between the two writes of an adoption; the caller finishes it.
            (None, Some(s)) if s.node == self.node && s.incarnation == self.incarnation => Ok(()),
            (Some(_), Some(s)) if s == *self => Ok(()),
            (_, None) => Err(Error::damaged(
                log,
                "it is empty or lost its beginning, though this node belongs to a cluster",
            )),
            (_, Some(s)) => Err(Error::damaged(
                log,
                format!(
                    "it was written by node {} with incarnation {:016x}, not by this directory's node {} with {:016x}",
                    s.node, s.incarnation, self.node, self.incarnation
                ),
            )),
        }
    }
}

/// Marks a directory that has no identity as one in which a restore is under way, durably.
pub(crate) fn store_restore_mark(root: &Path) -> Result<(), Error> {
    let path = root.join(data_dir::IDENTITY_NAME);
    let write = || {
        let mut file = data_dir::create_new_private_file(&path)?;
        file.write_all(RESTORE_MARK)?;
        seqsvr_os::sync_file(&file)
    };
    write().map_err(Error::io("cannot write", &path))?;
    data_dir::sync_dir(root)
}

/// Returns whether the content of an identity file is the whole mark.
pub(crate) fn is_restore_mark(identity: &[u8]) -> bool {
    identity == RESTORE_MARK
}

/// Rejects a directory that an interrupted restore left. `identity` is the content of its identity
/// file.
///
/// A part of the mark counts only while there is nothing else: the restore writes no other file
/// before the mark is durable. Beside a log, an identity file that lost its content is damage.
pub(crate) fn reject_restore_mark(directory: &DataDir, identity: &[u8]) -> Result<(), Error> {
    let is_part = RESTORE_MARK.starts_with(identity);
    if is_restore_mark(identity) || is_part && directory.has_no_content()? {
        return Err(Error::InterruptedRestore(directory.root().to_owned()));
    }
    Ok(())
}
