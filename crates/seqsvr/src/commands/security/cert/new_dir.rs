//! New directories with secret files.
//!
//! Invariant: a directory under its final name has all its files, durable and complete, and only
//! this user may enter it and read them. Nothing that exists is replaced.
//!
//! Schedule that breaks it: the command ends between the key and the certificate, and the operator
//! copies half a directory to a server. Or: the directory is made first and closed afterwards, and
//! another user opens the key in between.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use anyhow::{Context, bail};

use crate::output::exit_code::BadInput;

/// Creates a directory of mode 0700 with these files of mode 0600, each with a name and content.
///
/// # Errors
/// The name is in use by something other than an empty directory ([`BadInput`]), or the system
/// fails to write.
pub(super) fn write_new_dir(dir: &Path, files: &[(&str, &str)]) -> anyhow::Result<()> {
    reject_used(dir)?;
    let Some(name) = dir.file_name() else {
        bail!(BadInput(format!(
            "{}: it has no name; name a new directory, such as pki",
            dir.display()
        )));
    };
    let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let mut prefix = OsString::from(".");
    prefix.push(name);
    prefix.push(".");
    // It is deleted with its files when it is dropped.
    let part = tempfile::Builder::new()
        .prefix(&prefix)
        .rand_bytes(12)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(parent)
        .map_err(|error| unwritable(parent, error))?;
    for (name, content) in files {
        let path = part.path().join(name);
        write_new_file(&path, content.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    sync_dir(part.path())?;
    // It replaces an empty directory, and nothing else.
    if let Err(error) = fs::rename(part.path(), dir) {
        reject_used(dir)?;
        return Err(error).with_context(|| format!("cannot rename to {}", dir.display()));
    }
    // It has another name now.
    drop(part.keep());
    sync_dir(parent)
}

fn write_new_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn sync_dir(dir: &Path) -> anyhow::Result<()> {
    File::open(dir)
        .and_then(|open| open.sync_all())
        .with_context(|| format!("cannot sync directory {}", dir.display()))
}

/// Rejects a name that something other than an empty directory has.
fn reject_used(dir: &Path) -> anyhow::Result<()> {
    use io::ErrorKind::{NotADirectory, NotFound};
    let what = match fs::symlink_metadata(dir) {
        // If the parent is no directory, nothing can be made in it.
        Err(e) if matches!(e.kind(), NotFound | NotADirectory) => return Ok(()),
        Err(e) => return Err(e).with_context(|| format!("cannot use {}", dir.display())),
        Ok(meta) if !meta.is_dir() => "it is no directory",
        Ok(_) => match fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
            Ok(true) => return Ok(()),
            Ok(false) => "it exists",
            Err(e) => return Err(e).with_context(|| format!("cannot read {}", dir.display())),
        },
    };
    bail!(BadInput(format!(
        "{0}: {what}, and keys and certificates are never overwritten; choose another name, or move {0} away first",
        dir.display()
    )))
}

/// Returns the error of a directory in which no other can be made.
fn unwritable(dir: &Path, error: io::Error) -> anyhow::Error {
    use io::ErrorKind;
    let text = format!(
        "cannot make a directory in {}: {error}; name one in a directory that exists and that this user may write",
        dir.display()
    );
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::NotADirectory
        | ErrorKind::ReadOnlyFilesystem => BadInput(text).into(),
        _ => anyhow::anyhow!(text),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().mode() & 0o7777
    }

    const FILES: [(&str, &str); 2] = [("cert.pem", "c"), ("key.pem", "k")];

    #[test]
    fn new_directory_and_its_files_are_private() {
        let parent = tempfile::tempdir().unwrap();
        let empty = parent.path().join("empty");
        fs::create_dir(&empty).unwrap();
        fs::set_permissions(&empty, Permissions::from_mode(0o755)).unwrap();
        for dir in [parent.path().join("new"), empty] {
            write_new_dir(&dir, &FILES).unwrap();
            assert_eq!(mode_of(&dir), 0o700);
            for (name, content) in FILES {
                let file = dir.join(name);
                assert_eq!(mode_of(&file), 0o600);
                assert_eq!(fs::read_to_string(file).unwrap(), content);
            }
        }
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 2);
    }

    #[test]
    fn directory_file_or_link_that_exists_is_not_changed() {
        let parent = tempfile::tempdir().unwrap();
        let [used, file, link] = ["used", "file", "link"].map(|name| parent.path().join(name));
        fs::create_dir(&used).unwrap();
        fs::write(used.join("key.pem"), "old").unwrap();
        fs::write(&file, "old").unwrap();
        symlink("nowhere", &link).unwrap();
        for dir in [&used, &file, &link] {
            let error = write_new_dir(dir, &FILES).unwrap_err();
            assert!(error.is::<BadInput>(), "{error}");
            let text = error.to_string();
            assert!(text.contains("never overwritten"), "{text}");
        }
        assert_eq!(fs::read_to_string(used.join("key.pem")).unwrap(), "old");
        assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        assert!(!parent.path().join("nowhere").exists());
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 3);
    }

    #[test]
    fn failed_write_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new");
        // The second file cannot be created.
        let error = write_new_dir(&dir, &[("key.pem", "k"), ("no/such", "c")]).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write"), "{error:#}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);

        fs::write(parent.path().join("file"), "").unwrap();
        for below in ["missing/new", "file/new"] {
            let error = write_new_dir(&parent.path().join(below), &FILES).unwrap_err();
            assert!(error.is::<BadInput>(), "{error}");
            assert!(error.to_string().contains("a directory that exists"));
        }
    }
}
