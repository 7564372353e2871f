//! Opens everything a data directory holds, in the order that decides what can be trusted: lock,
//! binding, identity, log, snapshot, and last the rows. The rows are used only as far as the others
//! confirm them.

use seqsvr_core::planted;

use crate::error::Error;
use crate::log::LogStore;
use crate::options::Options;
use crate::state::applied_state::GrowthMeter;
use crate::state::sled_rows::{LoadedRows, SledRows};
use crate::state::snapshot;
use crate::state::snapshot_turns::FORCED_BUILD_FACTOR;
use crate::state::state_machine::StateMachine;
use crate::storage::data_dir::DataDir;
use crate::storage::identity::NodeIdentity;
use crate::storage::lock_binding::LockBinding;
use crate::types::LogId;

/// A data directory in use.
pub(crate) struct Storage {
    pub(crate) directory: DataDir,
    pub(crate) identity: NodeIdentity,
    pub(crate) log: LogStore,
    pub(crate) machine: StateMachine,
}

impl Storage {
    /// Opens or makes the directory.
    pub(crate) fn open(options: &Options) -> Result<Storage, Error> {
        let directory = DataDir::open(&options.data_dir)?;
        let stored = NodeIdentity::load(&directory, options.node)?;
        // Before the log is opened, because that drops a torn record at its end.
        let is_unbound = LockBinding::verify(&directory, options.moved_data_dir)?;
        if stored.is_some() && !LogStore::exists(&directory)? {
            return Err(Error::damaged(
                &directory.log_path(),
                "its files are missing, though the identity file is there",
            ));
        }
        let log = LogStore::open(&directory, options.log_file_bytes)?;
        let newest_snapshot = snapshot::read_newest(&directory)?;
        let identity = match stored {
            Some(identity) => identity,
            None if log.is_pristine() && newest_snapshot.is_none() => {
                let identity = NodeIdentity::new(options.node);
                identity.store(&directory)?;
                identity
            }
            None => {
                return Err(Error::damaged(
                    &directory.identity_path(),
                    "it is missing, though there is a log or a snapshot",
                ));
            }
        };
        let stamp = log.identity_stamp();
        identity.check_log(stamp, log.path())?;
        // The power went off between the two writes of an adoption, or an older identity file was
        // put back: the log has the cluster, and no other may adopt this node now.
        let identity = stamp.unwrap_or(identity);
        if stored.is_some_and(|s| s != identity) {
            identity.store(&directory)?;
        }
        if let Some((meta, state)) = &newest_snapshot
            && let Some(cluster) = state.cluster()
            && Some(cluster.id) != identity.cluster
        {
            return Err(Error::damaged(
                &snapshot::snapshot_path(&directory, meta),
                format!("it is of cluster {}, not of this node's", cluster.id),
            ));
        }
        let newest_snapshot = newest_snapshot.map(|(meta, _)| meta);
        let snapshot_id = newest_snapshot.as_ref().and_then(|meta| meta.last_log_id);
        if log.last_purged() > snapshot_id {
            return Err(Error::damaged(
                &directory.snapshots_path(),
                "the newest snapshot is older than where the log begins: a snapshot is missing",
            ));
        }
        let judge_rows =
            |loaded: &LoadedRows| find_rows_defect(loaded, &identity, &log, snapshot_id);
        let (rows, mut applied) = SledRows::open(
            &directory,
            identity.incarnation,
            log.durable_end(),
            judge_rows,
        )?;
        snapshot::remove_unfinished_files(&directory)?;
        if let Some(meta) = &newest_snapshot {
            snapshot::remove_older_than(&directory, &snapshot::snapshot_path(&directory, meta))?;
        }
        if is_unbound {
            LockBinding::store(&directory)?;
        }
        applied.growth_meter = GrowthMeter::starting_after(log.last_log_id());
        let forced_build_entries =
            FORCED_BUILD_FACTOR.saturating_mul(options.snapshot_interval_entries);
        let machine = StateMachine::new(
            &directory,
            rows,
            applied,
            newest_snapshot,
            forced_build_entries,
        );
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
fn find_rows_defect(
    rows: &LoadedRows,
    identity: &NodeIdentity,
    log: &LogStore,
    snapshot: Option<LogId>,
) -> Result<Option<String>, Error> {
    if planted!(TrustRows) {
        return Ok(None);
    }
    let is_in_log = |id: LogId| {
        let found = log
            .log_id_at(id.index)
            .map_err(Error::reading(log.path()))?;
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
        if log
            .last_purged()
            .is_none_or(|id| id.index < proven.entry.index)
            && !is_in_log(proven.entry)?
        {
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
    if Some(id) == snapshot || Some(id) == log.last_purged() || is_in_log(id)? {
        return Ok(None);
    }
    Ok(Some(format!(
        "its last applied entry {} is not in the durable log",
        id.index
    )))
}
