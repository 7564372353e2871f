//! Opens everything a data directory holds, in the order that decides what can be trusted: lock,
//! identity, log, snapshot, and last the rows, which are believed only as far as the others bear
//! them out.

use crate::directory::Directory;
use crate::error::Error;
use crate::identity::Identity;
use crate::log::LogStore;
use crate::machine::Machine;
use crate::options::Options;
use crate::rows::Rows;
use crate::snapshot;
use crate::types::LogId;

/// A data directory in use.
pub(crate) struct Storage {
    pub(crate) directory: Directory,
    pub(crate) identity: Identity,
    pub(crate) log: LogStore,
    pub(crate) machine: Machine,
}

impl Storage {
    /// Opens or makes the directory.
    pub(crate) fn open(options: &Options) -> Result<Storage, Error> {
        let directory = Directory::open(&options.data_dir)?;
        let stored = Identity::load(&directory, options.node)?;
        if stored.is_some() && !LogStore::exists(&directory)? {
            return Err(Error::damaged(
                &directory.log(),
                "its files are missing, though the identity file is there",
            ));
        }
        let log = LogStore::open(&directory, options.log_file_bytes)?;
        let newest = snapshot::newest(&directory)?;
        let identity = match stored {
            Some(identity) => identity,
            None if log.is_pristine() && newest.is_none() => {
                let identity = Identity::new(options.node);
                identity.store(&directory)?;
                identity
            }
            None => {
                return Err(Error::damaged(
                    &directory.identity(),
                    "it is missing, though there is a log or a snapshot",
                ));
            }
        };
        identity.check_log(log.stamp(), log.path())?;
        if let Some((meta, state)) = &newest
            && let Some(cluster) = state.cluster()
            && Some(cluster.id) != identity.cluster
        {
            return Err(Error::damaged(
                &snapshot::path_of(&directory, meta),
                format!("it is of cluster {}, not of this node's", cluster.id),
            ));
        }
        let newest = newest.map(|(meta, _)| meta);
        let snapshot_id = newest.as_ref().and_then(|meta| meta.last_log_id);
        if log.purged() > snapshot_id {
            return Err(Error::damaged(
                &directory.snapshots(),
                "the newest snapshot is older than where the log begins: a snapshot is missing",
            ));
        }
        let durable = |id: Option<LogId>| {
            // Nothing applied: openraft begins with the snapshot, if there is one.
            let Some(id) = id else { return Ok(true) };
            Ok(Some(id) == snapshot_id
                || Some(id) == log.purged()
                || log.log_id(id.index)? == Some(id))
        };
        let (rows, applied) = Rows::open(&directory, durable)?;
        let machine = Machine::new(&directory, rows, applied, newest);
        Ok(Storage {
            directory,
            identity,
            log,
            machine,
        })
    }
}
