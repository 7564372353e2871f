//! The file of principals on disk.
//!
//! Invariant: the file is replaced as a whole, by one command at a time, and keeps its owner, its
//! group and its mode.
//!
//! Schedule that breaks it: two operators add a principal each. Both read the file, and the second
//! one writes it without the principal of the first.

use std::fs::{self, File, Metadata, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use seqsvr_access::{AccessFile, FILE_BYTES_MAX};
use seqsvr_net::tls::check_secret_file;

use crate::output::exit_code::{BadInput, unreadable_input};
use crate::part_file::{create_part_file, dir_of, publish_new, publish_over};

/// Reads and checks a file as a server does.
///
/// # Errors
/// Others may read or change it, or it is no file of principals: [`BadInput`]. The system fails to
/// read it.
pub(in crate::commands) fn read_principals(path: &Path) -> anyhow::Result<AccessFile> {
    let (text, _) = read_text(path)?;
    AccessFile::parse(&text).map_err(|error| wrong_file(path, error).into())
}

/// Returns the error of a file that is wrong.
pub(super) fn wrong_file(path: &Path, why: impl std::fmt::Display) -> BadInput {
    BadInput(format!("{}: {why}", path.display()))
}

fn read_text(path: &Path) -> anyhow::Result<(String, Metadata)> {
    let what = path.display().to_string();
    let unreadable = |e| unreadable_input(&what, &e, "name a file that `seqsvr auth add` made");
    // What is checked and what is read is the same file, also if its name changes.
    let file = File::open(path).map_err(unreadable)?;
    let meta = file.metadata().map_err(unreadable)?;
    check_secret_file(path, &meta).map_err(|error| BadInput(error.to_string()))?;
    let mut text = String::new();
    // A longer one is rejected when it is parsed.
    file.take(FILE_BYTES_MAX as u64 + 1)
        .read_to_string(&mut text)
        .map_err(unreadable)?;
    Ok((text, meta))
}

/// A file that one command may change.
pub(super) struct LockedFile {
    /// The file itself, if a link leads to it.
    path: PathBuf,
    old: Option<(String, Metadata)>,
    /// Held until it is dropped.
    _dir: File,
}

impl LockedFile {
    /// Reads a file for a change, or begins a new one.
    ///
    /// # Errors
    /// Its directory does not exist, others may read or change the file, or another command changes
    /// a file of the directory: [`BadInput`]. The system fails to read it.
    pub(super) fn open(path: &Path) -> anyhow::Result<LockedFile> {
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let dir = dir_of(&path);
        let what = dir.display().to_string();
        let unreadable = |e| unreadable_input(&what, &e, "name a file in a directory that exists");
        let lock = File::open(dir).map_err(unreadable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "{}: another command changes a file in this directory; try again",
                path.display()
            ),
            Err(TryLockError::Error(error)) => return Err(unreadable(error)),
        }
        let old = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            _ => Some(read_text(&path)?),
        };
        Ok(LockedFile {
            path,
            old,
            _dir: lock,
        })
    }

    /// Returns the text; it is empty if the file is new.
    pub(super) fn text(&self) -> &str {
        self.old.as_ref().map_or("", |(text, _)| text)
    }

    /// Gives the file another text.
    ///
    /// # Errors
    /// The system fails to write it.
    pub(super) fn replace(self, text: &str) -> anyhow::Result<()> {
        let part = create_part_file(&self.path)?;
        let file = part.as_file();
        let written = write_all_durably(file, text, self.old.as_ref().map(|(_, meta)| meta));
        written.with_context(|| format!("cannot write {}", part.path().display()))?;
        match self.old {
            Some(_) => publish_over(part, &self.path),
            None => publish_new(part, &self.path, "a new file of principals"),
        }
    }
}

/// Writes a file that has the owner, the group and the mode of another one.
fn write_all_durably(mut file: &File, text: &str, like: Option<&Metadata>) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    if let Some(like) = like {
        let new = file.metadata()?;
        if (like.uid(), like.gid()) != (new.uid(), new.gid()) {
            fchown(file, Some(like.uid()), Some(like.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(like.mode() & 0o777))?;
    }
    file.sync_all()
}
