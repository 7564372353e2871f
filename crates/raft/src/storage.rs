//! Opens everything a data directory holds, in the order that decides what can be trusted: lock,
//! binding, identity, log, snapshot, and last the rows. The rows are used only as far as the others
//! confirm them.

use seqsvr_core::planted;

use crate::applied::Pace;
use crate::binding::Binding;
use crate::directory::Directory;
use crate::error::Error;
use crate::identity::Identity;
use crate::log::LogStore;
use crate::machine::Machine;
use crate::options::Options;
use crate::rows::{Loaded, Rows};
use crate::snapshot;
use crate::turns::HOLD_SNAPSHOTS;
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
        // Before the log is opened, because that drops a torn record at its end.
        let unbound = Binding::check(&directory, options.moved_data_dir)?;
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
        let stamp = log.stamp();
        identity.check_log(stamp, log.path())?;
        // The power went off between the two writes of an adoption, or an older identity file was
        // put back: the log has the cluster, and no other may adopt this node now.
        let identity = stamp.unwrap_or(identity);
        if stored.is_some_and(|s| s != identity) {
            identity.store(&directory)?;
        }
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
        let judge = |loaded: &Loaded| judge(loaded, &identity, &log, snapshot_id);
        let (rows, mut applied) =
            Rows::open(&directory, identity.incarnation, log.durable(), judge)?;
        snapshot::remove_unfinished(&directory)?;
        if let Some(meta) = &newest {
            snapshot::remove_older(&directory, &snapshot::path_of(&directory, meta))?;
        }
        if unbound {
            Binding::store(&directory)?;
        }
        applied.pace = Pace::after(log.last());
        let hold = HOLD_SNAPSHOTS.saturating_mul(options.snapshot_every_entries);
        let machine = Machine::new(&directory, rows, applied, newest, hold);
        Ok(Storage {
            directory,
            identity,
            log,
            machine,
        })
    }
}

/// Returns why the node cannot continue from rows that read back; None if it can. Refuses to start
/// if they prove that the log is not what it was.
fn judge(
    rows: &Loaded,
    identity: &Identity,
    log: &LogStore,
    snapshot: Option<LogId>,
) -> Result<Option<String>, Error> {
    if planted!(TrustRows) {
        return Ok(None);
    }
    let stands = |id: LogId| {
        let found = log.log_id(id.index).map_err(Error::reading(log.path()))?;
        Ok::<bool, Error>(found == Some(id))
    };
    if let Some(cluster) = rows.applied.state.cluster()
        && Some(cluster.id) != identity.cluster
    {
        return Ok(Some(format!(
            "it is of cluster {}, not of this node's",
            cluster.id
        )));
    }
    if let Some(proven) = rows.proven {
        if proven.incarnation != identity.incarnation {
            return Ok(Some(String::from("it is another node's")));
        }
        if log.purged().is_none_or(|id| id.index < proven.entry.index) && !stands(proven.entry)? {
            return Err(Error::LogLost {
                log: log.path().to_owned(),
                what: format!("entry {}", proven.entry.index),
            });
        }
    }
    // Nothing applied: openraft begins with the snapshot, if there is one.
    let Some(id) = rows.applied.last_applied else {
        return Ok(None);
    };
    if Some(id) == snapshot || Some(id) == log.purged() || stands(id)? {
        return Ok(None);
    }
    Ok(Some(format!(
        "its last applied entry {} is not in the durable log",
        id.index
    )))
}
