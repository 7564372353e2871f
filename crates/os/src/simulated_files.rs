//! Files of a simulated machine. They are real files, best on a file system in memory. This module
//! records which of their content is durable, and which a power cut leaves.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

type FileNames = BTreeMap<OsString, u64>;

#[derive(Default)]
struct DurableFiles {
    /// Durable content by inode.
    content: BTreeMap<u64, Vec<u8>>,
    /// Inodes of the files of a directory, by name.
    names: BTreeMap<PathBuf, FileNames>,
    /// Directories below which syncs fail.
    failing: Vec<PathBuf>,
}

thread_local!(static DURABLE: RefCell<DurableFiles> = RefCell::default());

/// Forgets what is durable, at the beginning of a run.
pub fn reset_durable() {
    DURABLE.take();
}

/// Makes syncs below a directory fail, or work again.
pub fn set_failing(root: &Path, fails: bool) {
    DURABLE.with_borrow_mut(|durable| {
        durable.failing.retain(|failing| failing != root);
        if fails {
            durable.failing.push(root.to_owned());
        }
    });
}

/// Forgets what is durable below a directory, which is deleted.
pub fn forget_below(root: &Path) {
    DURABLE.with_borrow_mut(|durable| {
        durable.failing.retain(|failing| failing != root);
        durable.names.retain(|dir, _| !dir.starts_with(root));
    });
}

fn fail_if_failing(path: &Path) -> io::Result<()> {
    let is_failing = |d: &DurableFiles| d.failing.iter().any(|failing| path.starts_with(failing));
    match DURABLE.with_borrow(is_failing) {
        true => Err(io::Error::from_raw_os_error(5)),
        false => Ok(()),
    }
}

/// Makes the content of a file durable.
///
/// # Errors
/// Syncs fail there.
pub fn sync_content(file: &File) -> io::Result<()> {
    // A second path to it: the file may be open for writing only.
    let link = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    fail_if_failing(&fs::read_link(&link)?)?;
    let content = fs::read(&link)?;
    let inode = file.metadata()?.ino();
    DURABLE.with_borrow_mut(|durable| durable.content.insert(inode, content));
    Ok(())
}

/// Makes the names in a directory durable.
///
/// # Errors
/// Syncs fail there.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    fail_if_failing(dir)?;
    let names = read_names(dir)?;
    DURABLE.with_borrow_mut(|durable| durable.names.insert(dir.to_owned(), names));
    Ok(())
}

/// Returns the durable names of files in a directory.
pub fn durable_names(dir: &Path) -> Vec<String> {
    DURABLE.with_borrow(|durable| {
        let names = durable.names.get(dir).into_iter().flat_map(BTreeMap::keys);
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    })
}

fn read_names(dir: &Path) -> io::Result<FileNames> {
    let mut names = FileNames::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let about = entry.metadata()?;
        if about.is_file() {
            names.insert(entry.file_name(), about.ino());
        }
    }
    Ok(names)
}

/// Cuts the power of the machine that has these directories. `draw(n)` returns a number below `n`.
///
/// # Errors
/// Those of the file system.
pub fn cut_power(dirs: &[PathBuf], mut draw: impl FnMut(u64) -> u64) -> io::Result<()> {
    for dir in dirs.iter().filter(|dir| dir.exists()) {
        cut_power_of(dir, &mut draw)?;
    }
    Ok(())
}

fn cut_power_of(dir: &Path, draw: &mut impl FnMut(u64) -> u64) -> io::Result<()> {
    let now = read_names(dir)?;
    let (durable, content) = DURABLE.with_borrow(|durable| {
        let names = durable.names.get(dir).cloned().unwrap_or_default();
        (names, durable.content.clone())
    });
    // Names are metadata, which a journal makes durable in their order: all of them, or those of
    // the last sync.
    let kept = if draw(2) == 0 { now.clone() } else { durable };
    for name in now.keys().filter(|name| !kept.contains_key(*name)) {
        fs::remove_file(dir.join(name))?;
    }
    for (name, inode) in &kept {
        let path = dir.join(name);
        let is_there = now.get(name) == Some(inode);
        let found = if is_there {
            fs::read(&path)?
        } else {
            Vec::new()
        };
        let left = match content.get(inode) {
            Some(content) => content.clone(),
            None => found[..draw(found.len() as u64 + 1) as usize].to_vec(),
        };
        // A file that has not changed keeps its inode.
        if !is_there {
            // The name may stand for another file now.
            if now.contains_key(name) {
                fs::remove_file(&path)?;
            }
            fs::write(&path, &left)?;
        } else if left != found {
            fs::write(&path, &left)?;
        }
    }
    sync_all(dir)
}

/// Makes all content of a directory durable, as when it is read back from the disk.
///
/// # Errors
/// Those of the file system.
pub fn sync_all(dir: &Path) -> io::Result<()> {
    let names = read_names(dir)?;
    for (name, inode) in &names {
        let content = fs::read(dir.join(name))?;
        DURABLE.with_borrow_mut(|durable| durable.content.insert(*inode, content));
    }
    DURABLE.with_borrow_mut(|durable| durable.names.insert(dir.to_owned(), names));
    Ok(())
}
