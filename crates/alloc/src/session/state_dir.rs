//! The state directory: a process that is restarted on this host takes the place of its own earlier
//! session at once, instead of waiting until that session has expired (DESIGN 5.6).
//!
//! Invariant: a proof is shown only by a process that holds the lock under which it was written.
//! Then the process that wrote it has ended, because the system releases the lock when its holder
//! ends. The proof is bound to the boot (a file system that outlived its host's memory proves
//! nothing), and to the device and inode of the lock file (a copied directory has a lock of its
//! own).
//!
//! Schedules that would break it: a directory copied beside a live process, whose copy supersedes
//! it while its lease still holds; two processes on one directory; a shared file system mounted by
//! two hosts. A session without a proof is waited for, as without a state directory.
//!
//! Invariant: the record of the cluster is durable before the first number of that cluster is
//! given, and only an operator changes it (`--join-cluster`). Unlike a proof it is bound to no boot
//! and to no place: it says what this AllocSvr gave numbers of. Schedule that breaks it: see
//! `own_cluster.rs`.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use seqsvr_core::command::SessionProof;
use seqsvr_core::ids::{ClusterId, Nonce, SessionId};
use seqsvr_net::with_open_files_remedy;
use serde::{Deserialize, Serialize};

use crate::error::Error;

const PROOF_FORMAT: u32 = 1;
const CLUSTER_FORMAT: u32 = 1;
/// File that records the cluster.
const CLUSTER_FILE: &str = "cluster";

/// An open state directory, locked until it is dropped.
#[derive(Debug)]
pub(crate) struct StateDir {
    dir: PathBuf,
    /// File that holds the lock.
    _lock: File,
    binding: ProofBinding,
}

/// Host and directory to which a proof is bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ProofBinding {
    boot: String,
    device: u64,
    inode: u64,
}

/// Proof as stored on disk.
#[derive(Serialize, Deserialize)]
struct StoredProof {
    format: u32,
    name: String,
    session: u64,
    /// Hexadecimal.
    nonce: String,
    place: ProofBinding,
}

/// Record of the cluster as stored on disk.
#[derive(Serialize, Deserialize)]
struct StoredCluster {
    format: u32,
    /// Hexadecimal.
    cluster: String,
}

impl StateDir {
    /// Opens and locks the directory; creates it if it does not exist.
    pub(crate) fn open(dir: &Path) -> Result<StateDir, Error> {
        let state_dir_error = |what: &str, e: &dyn std::fmt::Display| {
            Error::StateDir(format!(
                "cannot {what} the state directory {}: {e}; check --state-dir",
                dir.display()
            ))
        };
        std::fs::create_dir_all(dir).map_err(|e| state_dir_error("make", &e))?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options
            .open(dir.join("lock"))
            .map_err(|e| state_dir_error("use", &e))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::StateDir(format!(
                    "the state directory {} is in use by another process: stop it, or give this one a --state-dir of its own",
                    dir.display()
                )));
            }
            Err(e) => return Err(state_dir_error("lock", &e)),
        }
        let meta = lock.metadata().map_err(|e| state_dir_error("use", &e))?;
        let boot =
            seqsvr_os::boot_id().map_err(|e| state_dir_error("read this boot's id for", &e))?;
        Ok(StateDir {
            dir: dir.to_owned(),
            _lock: lock,
            binding: ProofBinding {
                boot: boot.trim().to_owned(),
                device: meta.dev(),
                inode: meta.ino(),
            },
        })
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Loads the cluster to which this AllocSvr belongs; None if it has had no session yet, or none
    /// since a build that recorded no cluster.
    ///
    /// # Errors
    /// [`Error::StateDir`]: the record cannot be read now, and a later start may read it. It is as
    /// good as before, so no text sends the operator to `--join-cluster`, which would switch its
    /// check off. [`Error::ClusterConflict`]: it can be read and is no record.
    pub(crate) fn load_cluster(&self) -> Result<Option<ClusterId>, Error> {
        let path = self.dir.join(CLUSTER_FILE);
        let rejected = || {
            Error::ClusterConflict(format!(
                "the cluster of this AllocSvr is not known: {} is damaged or of another version; start this AllocSvr once with --join-cluster ID, where ID is the cluster that `seqsvr status` shows",
                path.display()
            ))
        };
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            // Not text, so it is no record of any version.
            Err(e) if e.kind() == io::ErrorKind::InvalidData => return Err(rejected()),
            Err(e) => {
                return Err(Error::StateDir(with_open_files_remedy(format!(
                    "cannot read {}, which records the cluster of this AllocSvr: {e}; start this AllocSvr again once the file can be read",
                    path.display()
                ))));
            }
        };
        let stored = serde_json::from_str::<StoredCluster>(&text).ok();
        let stored = stored.filter(|stored| stored.format == CLUSTER_FORMAT);
        let cluster = stored.and_then(|stored| u128::from_str_radix(&stored.cluster, 16).ok());
        cluster.map(ClusterId).map(Some).ok_or_else(rejected)
    }

    /// Records the cluster, unless that is the recorded one. Waits for the disk.
    pub(crate) fn record_cluster(&self, cluster: ClusterId) -> io::Result<()> {
        if matches!(self.load_cluster(), Ok(Some(recorded)) if recorded == cluster) {
            // Its content was synced before it got its name. The name may not be durable yet.
            return seqsvr_os::sync_dir(&self.dir);
        }
        let stored = StoredCluster {
            format: CLUSTER_FORMAT,
            cluster: cluster.to_string(),
        };
        self.replace_file(CLUSTER_FILE, &stored)
    }

    /// Loads the proof that the session last opened here, under this name, has no live process. If
    /// there is none, logs the reason and returns None.
    pub(crate) fn load_proof(&self, name: &str) -> Option<SessionProof> {
        let path = self.dir.join("proof");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => return self.reject_proof(&format!("{} cannot be read: {e}", path.display())),
        };
        let damaged = || format!("{} is damaged or of another version", path.display());
        let Ok(stored) = serde_json::from_str::<StoredProof>(&text) else {
            return self.reject_proof(&damaged());
        };
        let nonce = u128::from_str_radix(&stored.nonce, 16);
        let (PROOF_FORMAT, Ok(nonce)) = (stored.format, nonce) else {
            return self.reject_proof(&damaged());
        };
        if stored.name != name {
            return self.reject_proof(&format!(
                "it belongs to an AllocSvr named {:?}",
                stored.name
            ));
        }
        if stored.place.boot != self.binding.boot {
            return self
                .reject_proof("it was written before this host was started, or on another host");
        }
        if stored.place != self.binding {
            return self.reject_proof("it was copied from another directory");
        }
        Some(SessionProof {
            session: SessionId(stored.session),
            nonce: Nonce(nonce),
        })
    }

    fn reject_proof(&self, why: &str) -> Option<SessionProof> {
        tracing::warn!(
            state_dir = %self.dir.display(),
            cause = with_open_files_remedy(why.to_owned()),
            "session proof not usable; waiting for an older session of this name to expire"
        );
        None
    }

    /// Stores the proof of a newly opened session. Waits for the disk.
    pub(crate) fn write_proof(&self, name: &str, proof: SessionProof) -> io::Result<()> {
        let stored = StoredProof {
            format: PROOF_FORMAT,
            name: name.to_owned(),
            session: proof.session.0,
            nonce: format!("{:032x}", proof.nonce.0),
            place: self.binding.clone(),
        };
        self.replace_file("proof", &stored)
    }

    /// Replaces a file as a whole, durably.
    fn replace_file(&self, name: &str, content: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(content).map_err(io::Error::other)?;
        let new = self.dir.join(format!("{name}.new"));
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(text.as_bytes())?;
        seqsvr_os::sync_file(&file)?;
        std::fs::rename(&new, self.dir.join(name))?;
        seqsvr_os::sync_dir(&self.dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROOF: SessionProof = SessionProof {
        session: SessionId(7),
        nonce: Nonce(u128::MAX - 1),
    };

    #[test]
    fn proof_is_loaded_by_next_process_only() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::open(dir.path()).unwrap();
        assert_eq!(first.load_proof("a1"), None);
        first.write_proof("a1", PROOF).unwrap();
        let second = StateDir::open(dir.path()).unwrap_err().to_string();
        assert!(second.contains("in use"), "{second}");
        drop(first);
        let next = StateDir::open(dir.path()).unwrap();
        assert_eq!(next.load_proof("a1"), Some(PROOF));
        assert_eq!(next.load_proof("a2"), None);
    }

    #[test]
    fn proof_in_copied_directory_is_rejected() {
        let [dir, copy] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let first = StateDir::open(dir.path()).unwrap();
        first.write_proof("a1", PROOF).unwrap();
        for file in ["lock", "proof"] {
            std::fs::copy(dir.path().join(file), copy.path().join(file)).unwrap();
        }
        let second = StateDir::open(copy.path()).unwrap();
        assert_eq!(second.load_proof("a1"), None);
    }

    #[test]
    fn proof_of_other_boot_or_format_or_damaged_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        state.write_proof("a1", PROOF).unwrap();
        let path = dir.path().join("proof");
        let good = std::fs::read_to_string(&path).unwrap();
        let other_boot = good.replace(&state.binding.boot, "00000000-0000-0000-0000-000000000000");
        let other_format = good.replace("\"format\":1", "\"format\":2");
        let cut = good[..good.len() / 2].to_owned();
        for bad in [other_boot, other_format, cut, String::new()] {
            assert_ne!(bad, good);
            std::fs::write(&path, bad).unwrap();
            assert_eq!(state.load_proof("a1"), None);
        }
        std::fs::write(&path, good).unwrap();
        assert_eq!(state.load_proof("a1"), Some(PROOF));
    }

    #[test]
    fn recorded_cluster_is_kept_until_another_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let first = StateDir::open(dir.path()).unwrap();
        assert_eq!(first.load_cluster().unwrap(), None);
        first.record_cluster(ClusterId(1)).unwrap();
        drop(first);
        let next = StateDir::open(dir.path()).unwrap();
        assert_eq!(next.load_cluster().unwrap(), Some(ClusterId(1)));
        next.record_cluster(ClusterId(2)).unwrap();
        assert_eq!(next.load_cluster().unwrap(), Some(ClusterId(2)));
        // A copy, and another boot: it is still the same AllocSvr.
        let copy = tempfile::tempdir().unwrap();
        std::fs::copy(dir.path().join("cluster"), copy.path().join("cluster")).unwrap();
        let copy = StateDir::open(copy.path()).unwrap();
        assert_eq!(copy.load_cluster().unwrap(), Some(ClusterId(2)));
    }

    #[test]
    fn damaged_cluster_record_is_rejected_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        for bad in [
            &b""[..],
            b"{",
            b"\xff",
            br#"{"format":2,"cluster":"01"}"#,
            br#"{"format":1,"cluster":"x"}"#,
        ] {
            std::fs::write(dir.path().join("cluster"), bad).unwrap();
            let error = state.load_cluster().unwrap_err();
            assert!(matches!(error, Error::ClusterConflict(_)), "{error:?}");
            let rejected = error.to_string();
            assert!(rejected.contains("--join-cluster"), "{rejected}");
        }
        state.record_cluster(ClusterId(1)).unwrap();
        assert_eq!(state.load_cluster().unwrap(), Some(ClusterId(1)));
    }

    /// Schedule: the disk has one bad moment while a start reads the record. The start must be
    /// repeated, and the record must not be given up.
    #[test]
    fn unreadable_cluster_record_is_no_conflict() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        let record = dir.path().join("cluster");
        // EIO: no process maps its first page.
        std::os::unix::fs::symlink("/proc/self/mem", &record).unwrap();
        let bad_disk = state.load_cluster().unwrap_err();
        std::fs::remove_file(&record).unwrap();
        std::fs::create_dir(&record).unwrap();
        let other_kind = state.load_cluster().unwrap_err();
        for error in [bad_disk, other_kind] {
            assert!(matches!(error, Error::StateDir(_)), "{error:?}");
            let text = error.to_string();
            assert!(text.contains("os error"), "{text}");
            assert!(text.contains("start this AllocSvr again"), "{text}");
            assert!(!text.contains("--join-cluster"), "{text}");
        }
    }

    /// The bytes of both files stay readable for every later build.
    #[test]
    fn golden_files_of_a_state_directory_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let state = StateDir::open(dir.path()).unwrap();
        // Of a build that recorded no cluster. Boot and place are those of this test.
        let ProofBinding {
            boot,
            device,
            inode,
        } = &state.binding;
        let proof = format!(
            r#"{{"format":1,"name":"a1","session":7,"nonce":"fffffffffffffffffffffffffffffffe","place":{{"boot":"{boot}","device":{device},"inode":{inode}}}}}"#
        );
        std::fs::write(dir.path().join("proof"), &proof).unwrap();
        assert_eq!(state.load_proof("a1"), Some(PROOF));
        assert_eq!(state.load_cluster().unwrap(), None);
        state.write_proof("a1", PROOF).unwrap();
        let written = std::fs::read_to_string(dir.path().join("proof")).unwrap();
        assert_eq!(written, proof, "an older build reads it, too");

        let cluster = r#"{"format":1,"cluster":"000102030405060708090a0b0c0d0e0f"}"#;
        std::fs::write(dir.path().join("cluster"), cluster).unwrap();
        let id = ClusterId(0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f);
        assert_eq!(state.load_cluster().unwrap(), Some(id));
        std::fs::remove_file(dir.path().join("cluster")).unwrap();
        state.record_cluster(id).unwrap();
        let written = std::fs::read_to_string(dir.path().join("cluster")).unwrap();
        assert_eq!(written, cluster);
    }

    #[test]
    fn state_dir_that_is_a_file_gives_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let error = StateDir::open(&file).unwrap_err().to_string();
        assert!(
            error.contains("--state-dir") && error.contains("file"),
            "{error}"
        );
    }
}
