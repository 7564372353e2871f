//! Directories that only the user of the process may enter: data directories and state directories.
//!
//! Invariant: a server uses no directory that other users may write, and nothing in it that another
//! user made. Its files hold proofs of sessions and the whole state of the cluster. What the
//! process creates is closed by its umask (`main`); this module closes or rejects what exists. The
//! directory and all in it belong to root or to the user of the process, and no file in it is a
//! symbolic link. Only the operator's own link to a directory is followed: systemd makes such links
//! for a `DynamicUser`, and `log` may lie on another disk.
//!
//! Schedules that break it: another user replaces the file `proof` in an open state directory. The
//! restarted AllocSvr takes over a session of that user's choice. Another user makes a directory of
//! mode 0700 where root starts a store, and reads and replaces all files later. Another user makes
//! a file `lock` in `/tmp`, and a server of root that is started on `/tmp` closes `/tmp`.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use crate::output::exit_code::{BadInput, unreadable_input};

/// Bits of a mode that let other users write.
const WRITE_BY_OTHERS: u32 = 0o022;
/// All bits of a mode for other users.
const ANY_BY_OTHERS: u32 = 0o077;

/// Levels of directories whose entries are checked: those of the servers have no more.
const DEPTH_MAX: u32 = 3;

/// Closes the directory of a flag to other users, if it exists. Changes the mode of a directory
/// only if it is empty or a server used it before: the operator may have named `/tmp` by mistake.
///
/// # Errors
/// Other users may write the directory, and this process may not change that; or the directory, or
/// something in it, belongs to another user or is a symbolic link. [`BadInput`], except if the
/// system fails to read something that this user may read.
pub(crate) fn close_dir(flag: &str, dir: &Path) -> anyhow::Result<()> {
    let unreadable = |e| unreadable(flag, dir, e);
    let link = match fs::symlink_metadata(dir) {
        Ok(link) => link,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(unreadable(e)),
    };
    check_owner(flag, dir, &link)?;
    match fs::metadata(dir) {
        // The server reports something that is no directory.
        Ok(meta) if !meta.is_dir() => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        _ => {}
    }
    // What is checked and what is changed is the same directory, also if its name changes.
    let open = File::open(dir).map_err(unreadable)?;
    let meta = open.metadata().map_err(unreadable)?;
    check_owner(flag, dir, &meta)?;
    let mode = meta.mode() & 0o7777;
    if mode & ANY_BY_OTHERS != 0 {
        close_open_dir(flag, dir, &open, &meta)?;
    }
    // No other user can add anything from here on.
    check_entries(flag, dir, DEPTH_MAX)
}

/// Returns the error of a directory that cannot be looked at.
fn unreadable(flag: &str, path: &Path, cause: io::Error) -> anyhow::Error {
    let what = format!("{flag} {}", path.display());
    unreadable_input(&what, &cause, "name a directory of this user")
}

/// Closes a directory that other users may read or write.
fn close_open_dir(flag: &str, dir: &Path, open: &File, meta: &Metadata) -> Result<(), BadInput> {
    let mode = meta.mode() & 0o7777;
    let closed = mode & !ANY_BY_OTHERS;
    if is_server_dir(dir) && open.set_permissions(Permissions::from_mode(closed)).is_ok() {
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

/// Returns whether something belongs to root or to the user of this process.
pub(crate) fn is_trusted(meta: &Metadata) -> bool {
    let owner = meta.uid();
    owner == 0 || owner == rustix::process::geteuid().as_raw()
}

/// Rejects what another user made.
fn check_owner(flag: &str, path: &Path, meta: &Metadata) -> Result<(), BadInput> {
    if is_trusted(meta) {
        return Ok(());
    }
    let user = rustix::process::geteuid().as_raw();
    Err(BadInput(format!(
        "{flag} {}: it belongs to user {}, who can change it, and not to root or to the user {user} of this process; start the process as that user, run `chown -R -h {user}` on the directory if all in it is yours, or name a new directory",
        path.display(),
        meta.uid()
    )))
}

/// Rejects a directory in which something belongs to another user, or is a link that no directory
/// of the operator needs.
fn check_entries(flag: &str, dir: &Path, depth: u32) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).map_err(|e| unreadable(flag, dir, e))? {
        let path = entry.map_err(|e| unreadable(flag, dir, e))?.path();
        let meta = match fs::symlink_metadata(&path) {
            Ok(meta) => meta,
            // A process that still uses the directory deleted it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            Err(e) => return Err(unreadable(flag, &path, e)),
        };
        check_owner(flag, &path, &meta)?;
        let mut is_dir = meta.is_dir();
        if meta.is_symlink() {
            let target = fs::metadata(&path).ok().filter(Metadata::is_dir);
            let Some(target) = target else {
                return Err(BadInput(format!(
                    "{flag} {}: it is a symbolic link, which a server follows only to a directory; delete it, or move the file here",
                    path.display()
                ))
                .into());
            };
            check_owner(flag, &path, &target)?;
            is_dir = true;
        }
        // A new file system has it, and no server uses it.
        if is_dir && depth > 1 && path.file_name() != Some("lost+found".as_ref()) {
            check_entries(flag, &path, depth - 1)?;
        }
    }
    Ok(())
}

/// Returns whether a server used the directory before, or nothing did.
fn is_server_dir(dir: &Path) -> bool {
    // Each server locks a file of this name in its directory. One of another user proves nothing.
    let is_lock = |meta: Metadata| meta.is_file() && is_trusted(&meta);
    if fs::symlink_metadata(dir.join("lock")).is_ok_and(is_lock) {
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
    use std::os::unix::fs::{chown, lchown, symlink};

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

    const OTHER_USER: u32 = 65_534;

    fn rejection(dir: &Path) -> String {
        close_dir("--state-dir", dir).unwrap_err().to_string()
    }

    fn is_root() -> bool {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            println!("SKIPPED: only root can make a file of another user");
        }
        is_root
    }

    #[test]
    fn what_another_user_made_is_rejected() {
        if !is_root() {
            return;
        }
        let dir = dir_with_mode(0o700);
        for name in ["lock", "proof", "identity"] {
            let file = dir.path().join(name);
            fs::write(&file, "").unwrap();
            close_dir("--state-dir", dir.path()).unwrap();
            chown(&file, Some(OTHER_USER), None).unwrap();
            let error = rejection(dir.path());
            for words in [&file.display().to_string(), "belongs to user 65534"] {
                assert!(error.contains(words), "{error}");
            }
            fs::remove_file(&file).unwrap();
        }
        fs::create_dir(dir.path().join("log")).unwrap();
        let file = dir.path().join("log/file");
        fs::write(&file, "").unwrap();
        lchown(&file, Some(OTHER_USER), None).unwrap();
        assert!(rejection(dir.path()).contains("log/file: it belongs to user"));
        fs::remove_file(&file).unwrap();

        chown(dir.path(), Some(OTHER_USER), None).unwrap();
        assert!(rejection(dir.path()).contains("belongs to user 65534"));
    }

    /// As root, the mode of `/tmp` would change.
    #[test]
    fn planted_lock_does_not_close_directory() {
        if !is_root() {
            return;
        }
        let dir = dir_with_mode(0o1777);
        fs::write(dir.path().join("lock"), "").unwrap();
        chown(dir.path().join("lock"), Some(OTHER_USER), None).unwrap();
        assert!(rejection(dir.path()).contains("other users may write"));
        assert_eq!(mode_of(dir.path()), 0o1777);
    }

    #[test]
    fn link_is_followed_only_to_directory_of_the_operator() {
        let [dir, other] = [(); 2].map(|()| dir_with_mode(0o700));
        let link = other.path().join("link");
        symlink(dir.path(), &link).unwrap();
        close_dir("--data-dir", &link).unwrap();

        let log = dir.path().join("log");
        symlink(other.path().join("."), &log).unwrap();
        fs::remove_file(&link).unwrap();
        close_dir("--data-dir", dir.path()).unwrap();
        for (name, target) in [
            ("lock", "victim"),
            ("proof.new", "missing"),
            ("identity", "lock"),
        ] {
            fs::write(dir.path().join("victim"), "").unwrap();
            let planted = dir.path().join(name);
            symlink(target, &planted).unwrap();
            let error = rejection(dir.path());
            assert!(
                error.contains("symbolic link") && error.contains(name),
                "{error}"
            );
            fs::remove_file(&planted).unwrap();
        }
        if is_root() {
            lchown(&log, Some(OTHER_USER), None).unwrap();
            assert!(rejection(dir.path()).contains("log: it belongs to user"));
        }
    }

    #[test]
    fn missing_directory_is_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let new = dir.path().join("new");
        close_dir("--data-dir", &new).unwrap();
        assert!(!new.exists());
    }
}
