//! Directories that only the user of the process may enter: data directories and state directories.
//!
//! Invariant: a server uses no directory that other users may write. Its files hold proofs of
//! sessions and the whole state of the cluster. What the process creates is closed by its umask
//! (`main`); this module closes or rejects what exists.
//!
//! Schedule that breaks it: another user replaces the file `proof` in an open state directory. The
//! restarted AllocSvr takes over a session of that user's choice.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::output::exit_code::BadInput;

/// Bits of a mode that let other users write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// All bits of a mode for other users.
const ANY_BY_OTHERS: u32 = 0o077;

/// Closes the directory of a flag to other users, if it exists. Changes the mode of a directory
/// only if it is empty or a server used it before: the operator may have named `/tmp` by mistake.
///
/// # Errors
/// Other users may write the directory, and this process may not change that.
pub(crate) fn close_dir(flag: &str, dir: &Path) -> Result<(), BadInput> {
    let meta = match fs::metadata(dir) {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => {
            return Err(BadInput(format!(
                "{flag} {}: cannot be read: {e}; name a directory of this user",
                dir.display()
            )));
        }
    };
    let mode = meta.mode() & 0o7777;
    if !meta.is_dir() || mode & ANY_BY_OTHERS == 0 {
        // The server reports something that is no directory.
        return Ok(());
    }
    let closed = mode & !ANY_BY_OTHERS;
    if is_server_dir(dir) && fs::set_permissions(dir, Permissions::from_mode(closed)).is_ok() {
        tracing::info!(
            dir = %dir.display(),
            mode_before = %format_args!("{mode:04o}"),
            mode = %format_args!("{closed:04o}"),
            "closed the directory to other users"
        );
        return Ok(());
    }
    if mode & WRITE_BY_OTHERS != 0 {
        return Err(BadInput(format!(
            "{flag} {0}: other users may write this directory (mode {mode:04o}, owner {1}), and it is not this server's to change; run `chmod 700 {0}` as its owner, or name a new directory below it, such as {2}",
            dir.display(),
            meta.uid(),
            dir.join("seqsvr").display()
        )));
    }
    tracing::warn!(
        dir = %dir.display(),
        mode = %format_args!("{mode:04o}"),
        owner = meta.uid(),
        "other users may read the directory; run `chmod 700` on it as its owner"
    );
    Ok(())
}

/// Returns whether a server used the directory before, or nothing did.
fn is_server_dir(dir: &Path) -> bool {
    // Each server locks a file of this name in its directory.
    if fs::symlink_metadata(dir.join("lock")).is_ok_and(|meta| meta.is_file()) {
        return true;
    }
    let Ok(mut entries) = fs::read_dir(dir) else {
        return false;
    };
    // A new file system has this directory.
    entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == "lost+found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dir_with_mode(mode: u32) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        dir
    }

    fn mode_of(dir: &Path) -> u32 {
        fs::metadata(dir).unwrap().mode() & 0o7777
    }

    #[test]
    fn own_directory_is_closed() {
        for mode in [0o755, 0o777, 0o2775, 0o711] {
            let dir = dir_with_mode(mode);
            close_dir("--data-dir", dir.path()).unwrap();
            assert_eq!(mode_of(dir.path()), mode & 0o7700);

            let used = dir_with_mode(mode);
            fs::write(used.path().join("lock"), "").unwrap();
            fs::write(used.path().join("proof"), "").unwrap();
            close_dir("--state-dir", used.path()).unwrap();
            assert_eq!(mode_of(used.path()), mode & 0o7700);
        }
    }

    /// As root, a change of the mode of `/tmp` would break the machine.
    #[test]
    fn mode_of_directory_with_other_files_is_not_changed() {
        let dir = dir_with_mode(0o1777);
        fs::write(dir.path().join("file"), "").unwrap();
        // As in /run.
        fs::create_dir(dir.path().join("lock")).unwrap();
        let error = close_dir("--data-dir", dir.path()).unwrap_err().to_string();
        let path = dir.path().display();
        for words in [
            format!("--data-dir {path}: other users may write"),
            "mode 1777".to_owned(),
            format!("`chmod 700 {path}`"),
            format!("{path}/seqsvr"),
        ] {
            assert!(error.contains(&words), "{error}");
        }
        assert_eq!(mode_of(dir.path()), 0o1777);

        let readable = dir_with_mode(0o755);
        fs::write(readable.path().join("file"), "").unwrap();
        close_dir("--data-dir", readable.path()).unwrap();
        assert_eq!(mode_of(readable.path()), 0o755);
    }

    #[test]
    fn missing_directory_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new");
        close_dir("--data-dir", &new).unwrap();
        assert!(!new.exists());
    }
}
