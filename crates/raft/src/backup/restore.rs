//! The data directory of the first node of a new cluster that begins with a given state.
//!
//! It equals the directory of a node that took a snapshot and purged its log up to it: an identity,
//! a log that begins behind entry 1 of term 1, a vote of that term, and the snapshot, whose
//! membership is this node alone. Once started, the node elects itself and others can join it.
//! Invariants:
//! - the state carries a new cluster id, and the directory a new incarnation, so no node of the old
//!   cluster takes part. Schedule that breaks it: two of three old nodes return while the restored
//!   one runs under their cluster id, and both continue to hand out the same numbers;
//! - no store starts on a directory that is only half made. So the mark of an interrupted restore
//!   is there, under the name of the identity file, before anything else. The identity replaces it
//!   at the end, by a rename, once all else is durable. Schedule that breaks it without the mark:
//!   the disk is full, or the process is killed, before the snapshot has its name. The directory
//!   looks new: the store starts empty, and a cluster that `init` makes of it begins at 1 again;
//! - a directory that is not empty is rejected, never overwritten.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use openraft::storage::RaftLogStorage;
use seqsvr_core::state::State;

use crate::error::Error;
use crate::log::LogStore;
use crate::options::Options;
use crate::state::snapshot;
use crate::storage::data_dir::{self, DataDir};
use crate::storage::identity::{self, NodeIdentity};
use crate::types::{CommittedLeaderId, LogId, Peer, SnapshotMeta, StoredMembership, Vote};

const RESTORED_TERM: u64 = 1;

/// Makes the data directory that `options` name, for their node at their address.
///
/// # Errors
/// The directory is not empty, the state has no cluster, an option is out of bounds, or the disk
/// fails. After a failure the directory may hold a part, on which no store starts.
pub async fn prepare_data_dir(state: &State, options: &Options) -> Result<NodeIdentity, Error> {
    let prepared = mark_and_fill(state, options).await;
    prepared.map_err(|error| {
        let dir = options.data_dir.display();
        let again = match options.data_dir.join(data_dir::IDENTITY_NAME).exists() {
            true => format!("delete everything in {dir} and run `seqsvr restore` again"),
            false => String::from("run `seqsvr restore` again"),
        };
        error.of_command(&again, &format!("check its disk, then {again}"))
    })
}

async fn mark_and_fill(state: &State, options: &Options) -> Result<NodeIdentity, Error> {
    options.validate()?;
    let cluster = state.cluster().map(|c| c.id);
    if cluster.is_none() {
        return Err(Error::Options(String::from("the state has no cluster")));
    }
    let dir = &options.data_dir;
    match std::fs::read_dir(dir).map(|mut entries| entries.next().is_some()) {
        Ok(false) => {}
        Ok(true) => {
            let identity = std::fs::read(dir.join(data_dir::IDENTITY_NAME));
            if identity.is_ok_and(|bytes| identity::is_restore_mark(&bytes)) {
                return Err(Error::InterruptedRestore(dir.clone()));
            }
            return Err(Error::Options(format!(
                "data directory {} is not empty: a cluster is restored into a new directory",
                dir.display()
            )));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(Error::io("cannot read", dir)(e)),
    }
    // The order of the syncs is the invariant. 1: the directory and the mark in it. From here on
    // each cut leaves the mark, until the rename of step 3.
    data_dir::make_root(dir)?;
    identity::store_restore_mark(dir)?;
    // 2: content and names of all else.
    let directory = DataDir::open(dir)?;
    let identity = NodeIdentity {
        cluster,
        ..NodeIdentity::new(options.node)
    };
    let peer = Peer {
        address: options.address.clone(),
        incarnation: identity.incarnation,
    };
    let first = LogId {
        leader_id: CommittedLeaderId::new(RESTORED_TERM),
        index: 1,
    };
    let alone = openraft::Membership::from(BTreeMap::from([(options.node, peer)]));
    let meta = SnapshotMeta {
        last_log_id: Some(first),
        last_membership: StoredMembership::new(Some(first), alone),
    };
    let mut state = state.clone();
    state.record_store_id(options.node, &mut BTreeSet::new());
    snapshot::write_snapshot(&directory, &meta, &state)?;
    let mut log = LogStore::open(&directory, options.log_file_bytes)?;
    let path = directory.log_path();
    let writing = |e| Error::writing(&path)(e);
    log.set_stamp(identity).await.map_err(writing)?;
    let vote = Vote::new_committed(RESTORED_TERM, options.node);
    log.save_vote(&vote).await.map_err(writing)?;
    log.purge(first).await.map_err(writing)?;
    data_dir::sync_dir(&path)?;
    // 3: the identity. A cut before its directory is synced leaves it or the mark.
    identity.store(&directory)?;
    Ok(identity)
}
