//! Identity of this data directory: node, incarnation, and the one cluster it belongs to.
//!
//! Invariant: incarnation is drawn once, when the directory is new, and the cluster is adopted once
//! and permanently. Schedule that breaks Raft without it: a voter acknowledges entries and its disk
//! is wiped. It returns under its old id with an empty log and votes for a candidate that lacks
//! those entries. With the invariant the wiped directory has another incarnation than the
//! membership records. So no call reaches it as that voter, and it never learns a cluster.

use std::path::Path;

use seqsvr_core::ids::ClusterId;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::storage::data_dir::{self, DataDir};
use crate::storage::record::{self, HasFormatLevel};

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
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("cannot read", &path)(e)),
        };
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
        let path = directory.identity_path();
        let bytes = record::encode(self).map_err(Error::io("cannot encode", &path))?;
        data_dir::replace_file(&path, &bytes)
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
