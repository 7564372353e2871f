//! Errors in the user's words: which file, what about it, what to do.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqsvr_core::ids::ClusterId;

use crate::record::RecordError;
use crate::remedy::{fix_of, node_remedy};

/// Reason why a node cannot start or cannot make a cluster.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Another process uses the directory.
    #[error(
        "data directory {0} is in use by another process: stop that one, or give this one a directory of its own"
    )]
    Locked(PathBuf),
    /// The directory was made by another node.
    #[error(
        "data directory {dir} belongs to node {has}, but this process was started as node {requested}: check --id and --data-dir"
    )]
    WrongNode {
        /// The directory.
        dir: PathBuf,
        /// Node it belongs to.
        has: u64,
        /// Node that was requested.
        requested: u64,
    },
    /// The directory is a copy of another one.
    #[error(
        "data directory {dir} is a copy: its lock file has inode {found}, and it was bound to inode {bound}. Nothing was changed. Start the original instead; if the original was moved here on purpose and no process uses it any more, start once with --moved-data-dir"
    )]
    Copied {
        /// The directory.
        dir: PathBuf,
        /// Inode of the lock file of the original.
        bound: u64,
        /// Inode of the lock file here.
        found: u64,
    },
    /// The node is in another cluster than the caller means.
    #[error(
        "this node belongs to cluster {ours}, not to {requested}: a node belongs to one cluster permanently; use an empty data directory to join another"
    )]
    WrongCluster {
        /// Cluster of the node.
        ours: ClusterId,
        /// Cluster that was requested.
        requested: ClusterId,
    },
    /// A living cluster has recorded this node with another directory.
    #[error(
        "store {sender} of cluster {cluster} calls this store as its member {node} with another data directory, so this one joins no second cluster, which could give the same numbers. Nothing was changed. Bring the old directory back; or run `seqsvr member remove {node}` in that cluster, start this store with an empty --data-dir and an --id that was never used, and run `seqsvr member add ID=ADDR`; to give that cluster up, stop all its stores, also removed ones, wait 5 s and repeat the command"
    )]
    WipedMember {
        /// This node's id.
        node: u64,
        /// The cluster that calls it.
        cluster: ClusterId,
        /// Store that called.
        sender: u64,
    },
    /// Written by a newer build.
    #[error(
        "{file}: format version {version} is unknown to this build: start the newer build that wrote it"
    )]
    Version {
        /// The file.
        file: PathBuf,
        /// Its version.
        version: u8,
    },
    /// A file is not what was written.
    #[error(
        "{file} is damaged ({what}). Nothing was changed. Restore the directory's disk if you can; else, if the other nodes work, move the directory away, remove this node from the cluster and add it again under a new id"
    )]
    Damaged {
        /// The file or directory.
        file: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The log lacks something that was durable in it.
    #[error(
        "{log} is an older copy or lost its end ({what} was durable in it and is gone). Nothing was changed, except that a half-written record at its end is dropped. Restore the newer log if you can; else, if the other nodes work, move the data directory away, remove this node from the cluster and add it again under a new id"
    )]
    LogLost {
        /// The log.
        log: PathBuf,
        /// What it lacks: an entry, or a vote.
        what: String,
    },
    /// The node's state differs from that of a majority.
    #[error(
        "the state of store {node} differs from that of a majority of the stores at entry {index}, so it stops: its memory or its disk failed, or its build applies entries in another way. Keep {dir} for a report, remove store {node} and add a new store under a new id"
    )]
    Diverged {
        /// This node's id.
        node: u64,
        /// Index of the entry at which the digests differ.
        index: u64,
        /// This node's data directory.
        dir: PathBuf,
    },
    /// Another process has this node's id.
    #[error(
        "another process has this id: it holds a vote of term {term} for store {node} that is not this process's own, so this one stops. Find the copy of {dir} that runs elsewhere and stop it, then start this one again; if there is none, {dir} is itself an older copy: remove store {node} and add a new store under a new id"
    )]
    Twin {
        /// This node's id.
        node: u64,
        /// Term of the vote.
        term: u64,
        /// This node's data directory.
        dir: PathBuf,
    },
    /// The operating system returned an error.
    #[error("{what} {file}: {reason}: {}", node_remedy(reason))]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which file.
        file: PathBuf,
        /// Its error; not a `source`, since the text already has it.
        reason: Arc<io::Error>,
    },
    /// A restore did not finish in the directory.
    #[error(
        "data directory {0} is incomplete: a restore into it was interrupted, and no store starts on it; delete everything in it, then run `seqsvr restore` again"
    )]
    InterruptedRestore(PathBuf),
    /// A command failed on a directory that no node uses.
    #[error("{cause}; {remedy}")]
    Command {
        /// What happened to which file.
        cause: String,
        /// What to do before the command is repeated, and how.
        remedy: String,
    },
    /// The members given to `init` do not fit.
    #[error("cannot initialize the cluster: {0}")]
    Members(String),
    /// `init` is incomplete; the same call continues it.
    #[error(
        "the cluster is not initialized yet ({0}): check that the other members run and are reachable, then repeat the command"
    )]
    Unfinished(String),
    /// An option is out of bounds.
    #[error("{0}")]
    Options(String),
    /// Raft stopped.
    #[error("raft stopped: {0}")]
    Stopped(String),
}

impl From<Error> for io::Error {
    /// Converts for openraft, which knows only storage errors of this kind. The text is complete
    /// and has no source, so that the last line says nothing twice.
    fn from(error: Error) -> io::Error {
        io::Error::other(error)
    }
}

impl Error {
    /// Returns an operating system error with its file.
    pub(crate) fn io(what: &'static str, file: &Path) -> impl FnOnce(io::Error) -> Error {
        let file = file.to_owned();
        move |reason| Error::Io {
            what,
            file,
            reason: Arc::new(reason),
        }
    }

    /// Returns damage found in a file.
    pub(crate) fn damaged(file: &Path, what: impl ToString) -> Error {
        Error::Damaged {
            file: file.to_owned(),
            what: what.to_string(),
        }
    }

    /// Returns an error of reading `file`: damage, or an error of the operating system.
    pub(crate) fn reading(file: &Path) -> impl FnOnce(io::Error) -> Error {
        let file = file.to_owned();
        move |source| match source
            .get_ref()
            .and_then(|e| e.downcast_ref::<RecordError>())
        {
            Some(damage) => Error::record(&file)(damage.clone()),
            None => match source.kind() {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => {
                    Error::damaged(&file, source)
                }
                _ => Error::io("cannot read", &file)(source),
            },
        }
    }

    /// Returns an error of a write of `file`; one that is in our words already stays as it is.
    pub(crate) fn writing(file: &Path) -> impl FnOnce(io::Error) -> Error {
        move |error| {
            let other = Error::io("cannot write", file);
            error.downcast().unwrap_or_else(other)
        }
    }

    /// Returns the error with the remedy of a command instead of that of a node. `again` says how
    /// the command is repeated, `if_damaged` what to do about a damaged file.
    pub(crate) fn of_command(self, again: &str, if_damaged: &str) -> Error {
        match self {
            Error::Io { what, file, reason } => Error::Command {
                cause: format!("{what} {}: {reason}", file.display()),
                remedy: match fix_of(&reason) {
                    Some(fix) => format!("{fix}, then {again}"),
                    None => {
                        format!("the system log may have the reason. Once the disk works, {again}")
                    }
                },
            },
            Error::Damaged { file, what } => Error::Command {
                cause: format!("{} is damaged ({what})", file.display()),
                remedy: if_damaged.to_owned(),
            },
            other => other,
        }
    }

    /// Returns the error of a record with its file.
    pub(crate) fn record(file: &Path) -> impl FnOnce(RecordError) -> Error {
        let file = file.to_owned();
        move |damage| match damage {
            RecordError::Version(version) => Error::Version { file, version },
            other => Error::damaged(&file, other),
        }
    }
}

/// Reason why a proposal has no replies.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProposeError {
    /// This node does not lead; nothing was written.
    #[error("this node does not lead")]
    NotLeader {
        /// The leader and its address, if known. None on a leader that lost its quorum.
        leader: Option<(u64, String)>,
    },
    /// The entry was written here and the leader changed: the entry may or may not be applied.
    #[error("the leader changed, the proposal may or may not be applied")]
    Uncertain,
    /// Nothing was written: the batch is empty or longer than an entry may be.
    #[error("{0}")]
    Invalid(String),
    /// Raft stopped; the proposal may or may not be applied.
    #[error("raft stopped: {0}")]
    Stopped(String),
}

/// Reason why leadership was not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// This node does not lead.
    #[error("this node does not lead")]
    NotLeader {
        /// The leader and its address, if known.
        leader: Option<(u64, String)>,
    },
    /// A quorum did not answer in time; a retry starts a new round.
    #[error("a quorum did not answer in time")]
    NoQuorum,
    /// Raft stopped.
    #[error("raft stopped: {0}")]
    Stopped(String),
}

/// Reason why a change of the members or of the leader was not completed. Repeating the call is
/// harmless: a completed change is answered as done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// This node does not lead (any more): call the leader.
    #[error("this node does not lead")]
    NotLeader {
        /// The leader and its address, if known.
        leader: Option<(u64, String)>,
    },
    /// Another change is under way here; only one runs at a time.
    #[error("another membership change is in progress; retry when it has finished")]
    Busy,
    /// The change would be wrong, or cannot work now; the text says what to do first.
    #[error("{0}")]
    Rejected(String),
    /// The change was made in part; the same call continues it at once.
    #[error("{0}")]
    Unfinished(String),
    /// Raft stopped.
    #[error("raft stopped: {0}")]
    Stopped(String),
}

impl From<ConfirmError> for MemberError {
    fn from(error: ConfirmError) -> MemberError {
        match error {
            ConfirmError::NotLeader { leader } => MemberError::NotLeader { leader },
            ConfirmError::NoQuorum => MemberError::Unfinished(String::from(
                "a majority of the voters does not answer: start them, then repeat the command",
            )),
            ConfirmError::Stopped(why) => MemberError::Stopped(why),
        }
    }
}
