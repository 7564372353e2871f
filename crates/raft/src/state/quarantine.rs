//! Sets aside the files of rows that cannot be used. A few of them are kept for inspection.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::storage::data_dir::{self, DataDir};

/// Number of set-aside directories that are kept.
const QUARANTINED_MAX: usize = 3;

/// Removes an unfinished snapshot of sled: sled refuses to open beside one.
pub(crate) fn remove_unfinished_sled_snapshot(path: &Path) -> Result<(), Error> {
    for file in data_dir::list_files(path)? {
        let name = file.file_name().map(|n| n.to_string_lossy().into_owned());
        if name.is_some_and(|n| n.starts_with("snap.") && n.ends_with(".generating")) {
            fs::remove_file(&file).map_err(Error::io("cannot delete", &file))?;
        }
    }
    Ok(())
}

pub(crate) fn quarantine(directory: &DataDir, what: &str) -> Result<(), Error> {
    let prefix = "state.bad.";
    let number = |path: &PathBuf| -> Option<u64> {
        let name = path.file_name()?.to_str()?;
        name.strip_prefix(prefix)?.parse().ok()
    };
    let mut aside: Vec<(u64, PathBuf)> = data_dir::list_files(directory.root())?
        .into_iter()
        .filter_map(|path| Some((number(&path)?, path)))
        .collect();
    aside.sort();
    let next = aside.last().map_or(1, |(n, _)| n + 1);
    let to = directory.root().join(format!("{prefix}{next}"));
    tracing::warn!(
        directory = %directory.state_path().display(),
        quarantined_as = %to.display(),
        reason = what,
        "stored state cannot be used: it is quarantined and rebuilt from snapshot and log; nothing is lost"
    );
    data_dir::publish_file(&directory.state_path(), &to)?;
    let excess = (aside.len() + 1).saturating_sub(QUARANTINED_MAX);
    // A file in the place of a directory was not made by a store: it is not deleted.
    let ours = aside.into_iter().filter(|(_, path)| path.is_dir());
    for (_, path) in ours.take(excess) {
        fs::remove_dir_all(&path).map_err(Error::io("cannot delete", &path))?;
    }
    Ok(())
}
