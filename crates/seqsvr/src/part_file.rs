//! Files that get their final names when they are complete.
//!
//! Invariant: a file under its final name is complete and durable, and only this user may read it
//! until then. The temporary file has a random name, is new, and is deleted when it is dropped.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use anyhow::Context;
use tempfile::{NamedTempFile, PersistError};

use crate::output::exit_code::BadInput;

/// Returns the directory of a file.
pub(crate) fn dir_of(file: &Path) -> &Path {
    let dir = file.parent().filter(|dir| !dir.as_os_str().is_empty());
    dir.unwrap_or(Path::new("."))
}

/// Creates a new file with a random name next to the final one.
///
/// # Errors
/// The directory of the file does not exist ([`BadInput`]), or the system fails to write to it.
pub(crate) fn create_part_file(file: &Path) -> anyhow::Result<NamedTempFile> {
    let dir = dir_of(file);
    if !dir.is_dir() {
        return Err(BadInput(format!(
            "cannot create a file in {}: it is no directory; name a file in one that exists",
            dir.display()
        ))
        .into());
    }
    let mut prefix = file.file_name().unwrap_or_default().to_owned();
    prefix.push(".");
    let part = tempfile::Builder::new()
        .prefix(&prefix)
        .suffix(".part")
        .rand_bytes(12)
        .tempfile_in(dir);
    part.with_context(|| format!("cannot create a file in {}", dir.display()))
}

/// Rejects a file that exists, and a link even if its target does not exist. `what` it would have
/// been is in the error, such as `a backup`.
///
/// # Errors
/// It exists ([`BadInput`]), or the system fails to look.
pub(crate) fn reject_existing(file: &Path, what: &str) -> anyhow::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(_) => Err(existing_error(file, what).into()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot use {}", file.display())),
    }
}

fn existing_error(file: &Path, what: &str) -> BadInput {
    BadInput(format!(
        "{} exists: {what} is never overwritten, choose another name",
        file.display()
    ))
}

/// Gives a synced file its final name, unless a file of this name exists now.
///
/// # Errors
/// One exists ([`BadInput`]), or the system fails to rename or to sync.
pub(crate) fn publish_new(part: NamedTempFile, file: &Path, what: &str) -> anyhow::Result<()> {
    match part.persist_noclobber(file) {
        Ok(_) => sync_dir_of(file),
        Err(PersistError { error, .. }) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(existing_error(file, what).into())
        }
        Err(PersistError { error, .. }) => {
            Err(error).with_context(|| format!("cannot rename to {}", file.display()))
        }
    }
}

/// Gives a synced file its final name, in place of one that may exist.
///
/// # Errors
/// The system fails to rename or to sync.
pub(crate) fn publish_over(part: NamedTempFile, file: &Path) -> anyhow::Result<()> {
    let renamed = part.persist(file);
    renamed.with_context(|| format!("cannot rename to {}", file.display()))?;
    sync_dir_of(file)
}

fn sync_dir_of(file: &Path) -> anyhow::Result<()> {
    let dir = dir_of(file);
    File::open(dir)
        .and_then(|open| open.sync_all())
        .with_context(|| format!("cannot sync directory {}", dir.display()))
}
