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

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use seqsvr_core::command::SessionProof;
use seqsvr_core::ids::{Nonce, SessionId};
use serde::{Deserialize, Serialize};

use crate::error::Error;

const PROOF_FORMAT: u32 = 1;

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

    /// Loads the proof that the session last opened here, under this name, has no live process. If
    /// there is none, logs the reason and returns None.
    pub(crate) fn load_proof(&self, name: &str) -> Option<SessionProof> {
        let path = self.dir.join("proof");
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            Err(e) => return self.reject_proof(&format!("{} cannot be read: {e}", path.display())),
        };
        let Ok(stored) = serde_json::from_str::<StoredProof>(&text) else {
            return self.reject_proof(&format!(
                "{} is damaged or of another version",
                path.display()
            ));
        };
        let nonce = u128::from_str_radix(&stored.nonce, 16);
        let (PROOF_FORMAT, Ok(nonce)) = (stored.format, nonce) else {
            return self.reject_proof(&format!(
                "{} is damaged or of another version",
                path.display()
            ));
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
            cause = why,
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
        let text = serde_json::to_string(&stored).map_err(io::Error::other)?;
        let new = self.dir.join("proof.new");
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(text.as_bytes())?;
        seqsvr_os::sync_file(&file)?;
        std::fs::rename(&new, self.dir.join("proof"))?;
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
