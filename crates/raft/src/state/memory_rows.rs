//! A key-value store on a simulated disk, with the calls of sled that `sled_rows` and `sled_guard`
//! make.
//!
//! sled flushes at times of its own, so after a crash it may have any earlier step of the writes.
//! The world chooses which, see [`crash`].

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

type Content = BTreeMap<Vec<u8>, Vec<u8>>;

/// Steps that may be lost in a crash; older ones are always kept.
const UNDO_MAX: usize = 512;

#[derive(Default)]
struct RowsDisk {
    kept: Content,
    steps: VecDeque<MemoryBatch>,
}

/// Disks by the path of their rows.
type DiskMap = BTreeMap<PathBuf, Arc<Mutex<RowsDisk>>>;

thread_local! {
    static DISKS: RefCell<DiskMap> = const { RefCell::new(BTreeMap::new()) };
}

/// Effect of a crash on the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryRowsCrash {
    /// Up to this number of the last steps are lost, as far as they may be.
    Lose(usize),
    /// A value is not what was written.
    Damage(u64),
}

/// Crashes the process that uses these rows, or its machine.
pub(crate) fn crash(path: &Path, crash: MemoryRowsCrash) {
    let disk = DISKS.with_borrow(|disks| disks.get(path).cloned());
    let Some(disk) = disk else { return };
    let mut disk = disk.lock();
    match crash {
        MemoryRowsCrash::Lose(count) => {
            let kept = disk.steps.len().saturating_sub(count);
            disk.steps.truncate(kept);
        }
        MemoryRowsCrash::Damage(at) => {
            disk.keep(0);
            let count = disk.kept.len().max(1) as u64;
            let value = disk.kept.values_mut().nth((at % count) as usize);
            if let Some(last) = value.and_then(|value| value.last_mut()) {
                *last ^= 1;
            }
        }
    }
}

/// Copies rows to another place, whose directory exists.
pub(crate) fn copy(from: &Path, to: &Path) {
    DISKS.with_borrow_mut(|disks| {
        let Some(disk) = disks.get(from) else { return };
        let (kept, steps) = {
            let disk = disk.lock();
            (disk.kept.clone(), disk.steps.clone())
        };
        disks.insert(
            to.to_owned(),
            Arc::new(Mutex::new(RowsDisk { kept, steps })),
        );
    });
}

/// Forgets all rows of this thread.
pub(crate) fn forget_all() {
    DISKS.with_borrow_mut(BTreeMap::clear);
}

impl RowsDisk {
    fn keep(&mut self, undo_max: usize) {
        while self.steps.len() > undo_max {
            if let Some(step) = self.steps.pop_front() {
                step.apply(&mut self.kept);
            }
        }
    }
}

/// Changes that are made together.
#[derive(Clone, Default)]
pub(crate) struct MemoryBatch(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl MemoryBatch {
    pub(crate) fn insert(&mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) {
        self.0.push((key.into(), Some(value.into())));
    }

    pub(crate) fn remove(&mut self, key: impl Into<Vec<u8>>) {
        self.0.push((key.into(), None));
    }

    fn apply(self, content: &mut Content) {
        for (key, value) in self.0 {
            match value {
                Some(value) => content.insert(key, value),
                None => content.remove(&key),
            };
        }
    }
}

/// Name that sled gives it.
pub(crate) type Batch = MemoryBatch;

/// An error of sled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("{0}")]
    Io(io::Error),
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

/// Configuration of an open.
pub(crate) struct Config(PathBuf);

impl Config {
    pub(crate) fn new() -> Config {
        Config(PathBuf::new())
    }

    pub(crate) fn path(self, path: &Path) -> Config {
        Config(path.to_owned())
    }

    pub(crate) fn cache_capacity(self, _bytes: u64) -> Config {
        self
    }

    pub(crate) fn open(self) -> Result<Db> {
        let is_new = !self.0.exists();
        std::fs::create_dir_all(&self.0).map_err(Error::Io)?;
        // `catch_sled_panic` syncs it.
        std::fs::write(self.0.join("db"), b"").map_err(Error::Io)?;
        let disk = DISKS.with_borrow_mut(|disks| {
            // It was quarantined.
            if is_new {
                disks.remove(&self.0);
            }
            disks.entry(self.0).or_default().clone()
        });
        Ok(Db(disk))
    }
}

/// Open rows.
#[derive(Clone)]
pub(crate) struct Db(Arc<Mutex<RowsDisk>>);

impl Db {
    pub(crate) fn apply_batch(&self, batch: MemoryBatch) -> Result<()> {
        let mut disk = self.0.lock();
        disk.steps.push_back(batch);
        disk.keep(UNDO_MAX);
        Ok(())
    }

    pub(crate) fn insert(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let mut batch = MemoryBatch::default();
        batch.insert(key, value);
        self.apply_batch(batch)
    }

    pub(crate) fn remove(&self, key: &[u8]) -> Result<()> {
        let mut batch = MemoryBatch::default();
        batch.remove(key);
        self.apply_batch(batch)
    }

    pub(crate) fn flush(&self) -> Result<usize> {
        Ok(0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Result<(Vec<u8>, Vec<u8>)>> + use<> {
        let disk = self.0.lock();
        let mut content = disk.kept.clone();
        disk.steps
            .iter()
            .cloned()
            .for_each(|step| step.apply(&mut content));
        content.into_iter().map(Ok)
    }
}
