//! Files that decide who is trusted: only their owner may change them, and read the key.
//!
//! Schedule that breaks it: another user of the machine adds a CA of its own to `ca.pem`, or reads
//! `key.pem`, and speaks for this server.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::bad_tls_dir::BadTlsDir;

/// Maximum bytes of a file; a longer one is rejected.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Which directory to name instead of one that cannot be read.
const DIR_REMEDY: &str = "name a directory that `seqsvr cert` made, with ca.pem, cert.pem and key.pem, and readable by this user";

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Secrecy {
    /// Every user.
    Public,
    /// The owner; or root's group, if root owns it.
    Secret,
}

/// Checks who may change a directory.
pub(super) fn check_dir(dir: &Path) -> Result<(), BadTlsDir> {
    let meta = std::fs::metadata(dir).map_err(|e| unreadable(dir, &e, DIR_REMEDY))?;
    match meta.is_dir() {
        true => check_access(dir, &meta, Secrecy::Public),
        false => Err(BadTlsDir(format!(
            "{} is no directory; name the directory of ca.pem, cert.pem and key.pem",
            dir.display()
        ))),
    }
}

/// Reads a file of a directory, after a check of who may change and read it.
pub(super) fn read_file(path: &Path, secrecy: Secrecy) -> Result<Vec<u8>, BadTlsDir> {
    read_named_file(path, secrecy, DIR_REMEDY)
}

/// Reads a file, after a check of who may change and read it. `remedy` says which one to name if it
/// cannot be read.
pub(crate) fn read_named_file(
    path: &Path,
    secrecy: Secrecy,
    remedy: &str,
) -> Result<Vec<u8>, BadTlsDir> {
    let unreadable = |cause: &io::Error| unreadable(path, cause, remedy);
    // What is checked and what is read is the same file, also if its name changes.
    let file = File::open(path).map_err(|e| unreadable(&e))?;
    let meta = file.metadata().map_err(|e| unreadable(&e))?;
    check_access(path, &meta, secrecy)?;
    let mut bytes = Vec::new();
    let mut bounded = file.take(FILE_BYTES_MAX + 1);
    bounded
        .read_to_end(&mut bytes)
        .map_err(|e| unreadable(&e))?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(BadTlsDir(format!(
            "{}: more than {FILE_BYTES_MAX} bytes, so it is no such file; {remedy}",
            path.display()
        ))),
        false => Ok(bytes),
    }
}

fn unreadable(path: &Path, cause: &io::Error, remedy: &str) -> BadTlsDir {
    BadTlsDir(format!("{}: {cause}; {remedy}", path.display()))
}

/// Checks who may change and read a file with secrets, or that decides what callers may do.
///
/// # Errors
/// Others than root, the user of this process, or a group of root's choice may read or change it.
pub fn check_secret_file(path: &Path, meta: &Metadata) -> Result<(), BadTlsDir> {
    check_access(path, meta, Secrecy::Secret)
}

fn check_access(path: &Path, meta: &Metadata, secrecy: Secrecy) -> Result<(), BadTlsDir> {
    let (owner, mode) = (meta.uid(), meta.permissions().mode() & 0o7777);
    let user = rustix::process::geteuid().as_raw();
    let name = path.display();
    if owner != 0 && owner != user {
        return Err(BadTlsDir(format!(
            "{name}: it belongs to user {owner}, who can change it, and not to root or to the user {user} of this process; run `chown {user}` on it"
        )));
    }
    // A group of root's choice may read the key: systemd's units run under users of their own.
    let forbidden = match (secrecy, owner) {
        (Secrecy::Public, _) => 0o022,
        (Secrecy::Secret, 0) => 0o037,
        (Secrecy::Secret, _) => 0o077,
    };
    if mode & forbidden != 0 {
        let (what, remedy) = match secrecy {
            Secrecy::Public => ("change", "chmod go-w"),
            Secrecy::Secret => ("read or change", "chmod 600"),
        };
        return Err(BadTlsDir(format!(
            "{name}: other users may {what} it (mode {mode:04o}); run `{remedy} {name}`"
        )));
    }
    Ok(())
}
