//! The disk of a log: written records and durable records are kept apart.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use seqsvr_core::planted;

use super::super::flush_callback::FlushCallback;
use super::image::{LogImage, LogRecord};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageState {
    Dirty,
    Lost,
}

/// Behavior of a simulated disk in the syncs of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyncConduct {
    /// Shortest and longest time of a sync, in milliseconds.
    pub(crate) ms: (u64, u64),
    pub(crate) fails: bool,
}

impl Default for SyncConduct {
    fn default() -> SyncConduct {
        SyncConduct {
            ms: (1, 3),
            fails: false,
        }
    }
}

#[derive(Default)]
pub(super) struct LogDisk {
    pub(super) durable: LogImage,
    /// Records written after the durable ones, in order.
    pub(super) written: VecDeque<(PageState, LogRecord)>,
    /// Number of them that are in the page cache; the others are still in the process.
    pub(super) cached: usize,
    pub(super) queue: VecDeque<(bool, Option<FlushCallback>)>,
    pub(super) is_flushing: bool,
    /// First failure of the writer; it accepts nothing after that.
    pub(super) failure: Option<(io::ErrorKind, String)>,
    /// Number of the process that uses the disk. Calls of an earlier process are ignored.
    pub(super) user: u64,
    pub(super) syncs: u64,
    pub(super) conduct: SyncConduct,
}

impl LogDisk {
    /// Returns everything that can be read while the machine has power.
    pub(super) fn image(&self) -> LogImage {
        let mut image = self.durable.clone();
        self.written
            .iter()
            .for_each(|(_, record)| image.apply(record));
        image
    }

    /// Syncs the page cache.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let cached = std::mem::take(&mut self.cached);
        if self.conduct.fails {
            let cached = self.written.iter_mut().take(cached);
            cached.for_each(|(page, _)| *page = PageState::Lost);
            return Err(io::Error::from_raw_os_error(5));
        }
        self.syncs += 1;
        for _ in 0..cached {
            match self.written.front() {
                Some((PageState::Dirty, record)) => self.durable.apply(record),
                _ => break,
            }
            self.written.pop_front();
        }
        Ok(())
    }
}

/// Disks by the path of their log.
type DiskMap = BTreeMap<PathBuf, Arc<Mutex<LogDisk>>>;

thread_local! {
    /// The logs of this thread's disks, by path.
    static DISKS: RefCell<DiskMap> = const { RefCell::new(BTreeMap::new()) };
}

pub(super) fn disk_at(path: &Path) -> Option<Arc<Mutex<LogDisk>>> {
    DISKS.with_borrow(|disks| disks.get(path).cloned())
}

/// Returns the disk of a log, which may be new.
pub(super) fn disk_for(path: &Path) -> Arc<Mutex<LogDisk>> {
    DISKS.with_borrow_mut(|disks| disks.entry(path.to_owned()).or_default().clone())
}

/// Does what `durable_tail::make_durable` does with the files of `raft-log`: rewrites the records
/// that may not be durable.
pub(crate) fn make_durable(path: &Path) -> io::Result<()> {
    let Some(disk) = disk_at(path) else {
        return Ok(());
    };
    let mut disk = disk.lock();
    if !planted!(TrustPageCache) {
        disk.written
            .iter_mut()
            .for_each(|(page, _)| *page = PageState::Dirty);
    }
    disk.cached = disk.written.len();
    disk.sync()
}

/// Kills the process that uses the log: of the `n` records that its writer has not taken, `keep(n)`
/// stay.
pub(crate) fn kill(path: &Path, keep: impl FnOnce(usize) -> usize) {
    let Some(disk) = disk_at(path) else { return };
    let mut disk = disk.lock();
    disk.user += 1;
    let unwritten = disk.written.len() - disk.cached;
    let kept = disk.cached + keep(unwritten);
    disk.written.truncate(kept);
}

/// Cuts the power: of the `n` dirty records before the first lost one, `keep(n)` stay.
pub(crate) fn cut_power(path: &Path, keep: impl FnOnce(usize) -> usize) {
    let Some(disk) = disk_at(path) else { return };
    let mut disk = disk.lock();
    let disk = &mut *disk;
    disk.user += 1;
    let dirty = disk
        .written
        .iter()
        .take_while(|(page, _)| *page == PageState::Dirty);
    let kept = keep(dirty.count());
    for (_, record) in disk.written.drain(..).take(kept) {
        disk.durable.apply(&record);
    }
    disk.written.clear();
    disk.cached = 0;
}

/// Sets the behavior of the syncs of a log; the log need not exist yet.
pub(crate) fn set_conduct(path: &Path, conduct: SyncConduct) {
    disk_for(path).lock().conduct = conduct;
}

/// Reads the durable part of a log.
pub(crate) fn with_durable<T>(path: &Path, read: impl FnOnce(&LogImage) -> T) -> Option<T> {
    Some(read(&disk_at(path)?.lock().durable))
}

/// Forgets all logs of this thread.
pub(crate) fn forget_all() {
    DISKS.with_borrow_mut(BTreeMap::clear);
}

/// Copies a log, with records that are not durable yet, to another place.
pub(crate) fn copy(from: &Path, to: &Path) {
    let Some(disk) = disk_at(from) else { return };
    let copy = {
        let disk = disk.lock();
        LogDisk {
            durable: disk.durable.clone(),
            written: disk.written.clone(),
            user: disk.user,
            conduct: disk.conduct,
            ..LogDisk::default()
        }
    };
    DISKS.with_borrow_mut(|disks| disks.insert(to.to_owned(), Arc::new(Mutex::new(copy))));
}

/// Deletes a log.
pub(crate) fn remove(path: &Path) {
    DISKS.with_borrow_mut(|disks| disks.remove(path));
}
