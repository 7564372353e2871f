//! A log on a simulated disk, with the calls of `raft-log` that [`super::LogStore`] makes.
//!
//! What was written and what is durable lie apart. A record is in one of three states: *dirty* (in the page
//! cache only), *lost* (the sync failed, so the kernel marked its page clean and never writes it), *durable*.
//! A process that is killed loses records that its writer has not taken yet. A power cut keeps a prefix of the
//! records: it ends before the first lost record, and anywhere among the dirty ones.
//!
//! `tests.rs` compares it with `raft-log`, call by call.

#![cfg_attr(not(sim), allow(dead_code, reason = "only the tests use it"))]

#[cfg(all(test, not(sim)))]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::planted;

use super::codec::Framed;
use super::done::Done;
#[cfg(sim)]
use crate::directory::Directory;
#[cfg(sim)]
use crate::error::Error;
use crate::identity::Identity;
use crate::types::{LogId, Payload, Vote};

type Id = Framed<LogId>;
type Entry = (Id, Framed<Payload>);

/// State of a log without its entries, as `raft_log::RaftLogState`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryLogState {
    pub(crate) user_data: Option<Framed<Identity>>,
    vote: Option<Framed<Vote>>,
    last: Option<Id>,
    committed: Option<Id>,
    purged: Option<Id>,
}

impl MemoryLogState {
    pub(crate) fn vote(&self) -> Option<&Framed<Vote>> {
        self.vote.as_ref()
    }

    pub(crate) fn last(&self) -> Option<&Id> {
        self.last.as_ref()
    }

    pub(crate) fn committed(&self) -> Option<&Id> {
        self.committed.as_ref()
    }

    pub(crate) fn purged(&self) -> Option<&Id> {
        self.purged.as_ref()
    }
}

#[derive(Clone, Debug)]
enum Record {
    UserData(Option<Framed<Identity>>),
    Vote(Framed<Vote>),
    Append(Box<Entry>),
    /// Keeps the entries up to this one.
    Truncate(Option<Id>),
    Purge(Id),
    Commit(Id),
}

/// What a log says when all of its records are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogImage {
    pub(crate) state: MemoryLogState,
    pub(crate) entries: BTreeMap<u64, Entry>,
}

fn next_index(id: Option<&Id>) -> u64 {
    id.map_or(0, |id| id.0.index + 1)
}

impl LogImage {
    /// Checks what `raft-log` checks before it takes a record.
    fn check(&self, record: &Record) -> io::Result<()> {
        let state = &self.state;
        let is_allowed = match record {
            Record::Vote(vote) => Some(vote) >= state.vote.as_ref(),
            Record::Append(entry) => {
                let is_next = entry.0.0.index == next_index(state.last.as_ref());
                Some(&entry.0) > state.last.as_ref() && (state.last.is_none() || is_next)
            }
            Record::Commit(id) => {
                Some(id) >= state.committed.as_ref() && Some(id) <= state.last.as_ref()
            }
            Record::Truncate(keep) => keep.as_ref() >= state.committed.as_ref(),
            Record::UserData(_) | Record::Purge(_) => true,
        };
        match is_allowed {
            true => Ok(()),
            false => Err(io::Error::other(format!(
                "{record:?} does not follow {state:?}"
            ))),
        }
    }

    fn apply(&mut self, record: &Record) {
        let state = &mut self.state;
        match record {
            Record::UserData(data) => state.user_data.clone_from(data),
            Record::Vote(vote) => state.vote = Some(vote.clone()),
            Record::Append(entry) => {
                state.last = Some(entry.0.clone());
                self.entries.insert(entry.0.0.index, (**entry).clone());
            }
            Record::Truncate(keep) => {
                self.entries.split_off(&next_index(keep.as_ref()));
                if state.last > *keep {
                    state.last.clone_from(keep);
                }
            }
            Record::Purge(upto) => {
                self.entries = self.entries.split_off(&next_index(Some(upto)));
                let purged = Some(upto.clone());
                state.purged = state.purged.take().max(purged.clone());
                state.last = state.last.take().max(purged);
            }
            Record::Commit(id) => state.committed = Some(id.clone()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Dirty,
    Lost,
}

/// How a simulated disk treats the syncs of a log.
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
struct LogDisk {
    durable: LogImage,
    /// Written after what is durable, in order.
    written: VecDeque<(Page, Record)>,
    /// So many of them are in the page cache; the others are still in the process.
    cached: usize,
    queue: VecDeque<(bool, Option<Done>)>,
    is_flushing: bool,
    /// First failure of the writer; it takes nothing after that.
    failure: Option<(io::ErrorKind, String)>,
    /// Number of the process that uses it. What an earlier one still does is ignored.
    user: u64,
    syncs: u64,
    conduct: SyncConduct,
}

impl LogDisk {
    /// Everything that can be read while the machine has power.
    fn image(&self) -> LogImage {
        let mut image = self.durable.clone();
        self.written
            .iter()
            .for_each(|(_, record)| image.apply(record));
        image
    }

    /// Syncs what is in the page cache.
    fn sync(&mut self) -> io::Result<()> {
        let cached = std::mem::take(&mut self.cached);
        if self.conduct.fails {
            let cached = self.written.iter_mut().take(cached);
            cached.for_each(|(page, _)| *page = Page::Lost);
            return Err(io::Error::from_raw_os_error(5));
        }
        self.syncs += 1;
        for _ in 0..cached {
            match self.written.front() {
                Some((Page::Dirty, record)) => self.durable.apply(record),
                _ => break,
            }
            self.written.pop_front();
        }
        Ok(())
    }
}

thread_local! {
    /// The logs of this thread's disks, by path.
    static DISKS: RefCell<BTreeMap<PathBuf, Arc<Mutex<LogDisk>>>> = const { RefCell::new(BTreeMap::new()) };
}

fn disk_at(path: &Path) -> Option<Arc<Mutex<LogDisk>>> {
    DISKS.with_borrow(|disks| disks.get(path).cloned())
}

/// Returns whether there is a log.
#[cfg(sim)]
pub(super) fn exists(path: &Path) -> Result<bool, Error> {
    Ok(disk_at(path).is_some_and(|disk| disk.lock().user > 0))
}

/// Opens the log, or makes it.
#[cfg(sim)]
pub(super) fn open(
    _: &Directory,
    path: &Path,
    _: usize,
) -> Result<RaftLog<super::codec::Kinds>, Error> {
    make_durable(path).map_err(Error::io("cannot sync", path))?;
    Ok(RaftLog::open(path))
}

/// Does what `reread::make_durable` does with the files of `raft-log`: rewrites what is not known to be durable.
pub(crate) fn make_durable(path: &Path) -> io::Result<()> {
    let Some(disk) = disk_at(path) else {
        return Ok(());
    };
    let mut disk = disk.lock();
    if !planted!(TrustPageCache) {
        disk.written
            .iter_mut()
            .for_each(|(page, _)| *page = Page::Dirty);
    }
    disk.cached = disk.written.len();
    disk.sync()
}

/// Kills the process that uses the log: `keep(n)` says how many of the `n` records stay that its writer has not
/// taken.
pub(crate) fn kill(path: &Path, keep: impl FnOnce(usize) -> usize) {
    let Some(disk) = disk_at(path) else { return };
    let mut disk = disk.lock();
    disk.user += 1;
    let unwritten = disk.written.len() - disk.cached;
    let kept = disk.cached + keep(unwritten);
    disk.written.truncate(kept);
}

/// Cuts the power: `keep(n)` says how many of the `n` dirty records before the first lost one stay.
pub(crate) fn cut_power(path: &Path, keep: impl FnOnce(usize) -> usize) {
    let Some(disk) = disk_at(path) else { return };
    let mut disk = disk.lock();
    let disk = &mut *disk;
    disk.user += 1;
    let dirty = disk
        .written
        .iter()
        .take_while(|(page, _)| *page == Page::Dirty);
    let kept = keep(dirty.count());
    for (_, record) in disk.written.drain(..).take(kept) {
        disk.durable.apply(&record);
    }
    disk.written.clear();
    disk.cached = 0;
}

/// Sets how the syncs of a log are treated; the log needs not exist yet.
pub(crate) fn set_conduct(path: &Path, conduct: SyncConduct) {
    DISKS.with_borrow_mut(|disks| {
        disks.entry(path.to_owned()).or_default().lock().conduct = conduct;
    });
}

/// Returns what is durable of a log.
pub(crate) fn durable(path: &Path) -> Option<LogImage> {
    Some(disk_at(path)?.lock().durable.clone())
}

/// Forgets all logs of this thread.
pub(crate) fn forget_all() {
    DISKS.with_borrow_mut(BTreeMap::clear);
}

/// Deletes a log.
pub(crate) fn remove(path: &Path) {
    DISKS.with_borrow_mut(|disks| disks.remove(path));
}

#[cfg(sim)]
pub(super) use MemoryLog as RaftLog;

/// An open log, in place of `raft_log::RaftLog`.
pub(crate) struct MemoryLog<K> {
    now: LogImage,
    disk: Arc<Mutex<LogDisk>>,
    user: u64,
    kinds: PhantomData<K>,
}

/// Counters of the writer, as far as they are read.
#[derive(Default)]
pub(crate) struct FlushMetrics {
    pub(crate) sync_batch_count: u64,
    pub(crate) sync_us: u64,
    pub(crate) sync_max_us: u64,
    pub(crate) write_bytes: u64,
}

pub(crate) struct Stat {
    pub(crate) flush_metrics: FlushMetrics,
}

impl<K> MemoryLog<K> {
    /// Opens the log, or makes it.
    pub(crate) fn open(path: &Path) -> MemoryLog<K> {
        let disk = DISKS.with_borrow_mut(|disks| disks.entry(path.to_owned()).or_default().clone());
        let (now, user) = {
            let mut disk = disk.lock();
            disk.user += 1;
            disk.queue.clear();
            disk.is_flushing = false;
            disk.failure = None;
            disk.cached = disk.written.len();
            (disk.image(), disk.user)
        };
        MemoryLog {
            now,
            disk,
            user,
            kinds: PhantomData,
        }
    }

    fn write(&mut self, record: Record) -> io::Result<()> {
        self.now.check(&record)?;
        self.now.apply(&record);
        let mut disk = self.disk.lock();
        if disk.user == self.user && disk.failure.is_none() {
            disk.written.push_back((Page::Dirty, record));
        }
        Ok(())
    }

    pub(crate) fn save_user_data(&mut self, data: Option<Framed<Identity>>) -> io::Result<()> {
        self.write(Record::UserData(data))
    }

    pub(crate) fn save_vote(&mut self, vote: Framed<Vote>) -> io::Result<()> {
        self.write(Record::Vote(vote))
    }

    pub(crate) fn append(&mut self, entries: impl IntoIterator<Item = Entry>) -> io::Result<()> {
        let mut entries = entries.into_iter();
        entries.try_for_each(|entry| self.write(Record::Append(Box::new(entry))))
    }

    pub(crate) fn truncate(&mut self, index: u64) -> io::Result<()> {
        let purged = &self.now.state.purged;
        let keep = match index.checked_sub(1) {
            _ if index == next_index(purged.as_ref()) => purged.clone(),
            Some(before) if let Some((id, _)) = self.now.entries.get(&before) => Some(id.clone()),
            _ => return Err(io::Error::other(format!("no entry before {index}"))),
        };
        self.write(Record::Truncate(keep))
    }

    pub(crate) fn purge(&mut self, upto: Id) -> io::Result<()> {
        match upto.0.index < next_index(self.now.state.purged.as_ref()) {
            true => Ok(()),
            false => self.write(Record::Purge(upto)),
        }
    }

    pub(crate) fn commit(&mut self, id: Id) -> io::Result<()> {
        self.write(Record::Commit(id))
    }

    /// Queues a sync of what was written before; without `sync` only the callback.
    pub(crate) fn flush(&mut self, sync: bool, callback: Option<Done>) -> io::Result<()> {
        let mut disk = self.disk.lock();
        if disk.user != self.user || disk.failure.is_some() {
            return Err(io::Error::other("the channel is closed"));
        }
        let mut callback = callback;
        if planted!(AcknowledgeBeforeSync)
            && let Some(done) = callback.take()
        {
            raft_log::Callback::send(done, Ok(()));
        }
        disk.queue.push_back((sync, callback));
        if !disk.is_flushing {
            disk.is_flushing = true;
            tokio::spawn(run_writer(self.disk.clone(), self.user));
        }
        Ok(())
    }

    pub(crate) fn log_state(&self) -> &MemoryLogState {
        &self.now.state
    }

    pub(crate) fn read(
        &self,
        from: u64,
        to: u64,
    ) -> impl Iterator<Item = io::Result<Entry>> + use<'_, K> {
        let entries = (from < to).then(|| self.now.entries.range(from..to));
        entries
            .into_iter()
            .flatten()
            .map(|(_, entry)| Ok(entry.clone()))
    }

    /// Returns what the writer died of.
    pub(crate) fn wait_worker_idle(&self) -> io::Result<()> {
        match &self.disk.lock().failure {
            Some((kind, text)) => Err(io::Error::new(*kind, text.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn stat(&self) -> Stat {
        let sync_batch_count = self.disk.lock().syncs;
        let flush_metrics = FlushMetrics {
            sync_batch_count,
            ..FlushMetrics::default()
        };
        Stat { flush_metrics }
    }
}

/// Syncs what is queued, one batch after another, as the writer thread of `raft-log` does.
async fn run_writer(disk: Arc<Mutex<LogDisk>>, user: u64) {
    loop {
        let (batch, ms): (Vec<_>, _) = {
            let mut disk = disk.lock();
            if disk.user != user {
                return;
            }
            if disk.queue.is_empty() {
                disk.is_flushing = false;
                return;
            }
            disk.cached = disk.written.len();
            (disk.queue.drain(..).collect(), disk.conduct.ms)
        };
        let mut outcome = Ok(());
        if batch.iter().any(|(sync, _)| *sync) {
            tokio::time::sleep(Duration::from_millis(draw_between(ms))).await;
            let mut disk = disk.lock();
            if disk.user != user {
                return;
            }
            outcome = disk.sync();
            if let Err(e) = &outcome {
                disk.failure = Some((e.kind(), e.to_string()));
                let waiting = std::mem::take(&mut disk.queue);
                drop(disk);
                // Their `Done`s say that the writer ended.
                drop(waiting);
            }
        }
        for done in batch.into_iter().filter_map(|(_, done)| done) {
            let result = match &outcome {
                Ok(()) => Ok(()),
                Err(_) => Err(io::Error::from_raw_os_error(5)),
            };
            raft_log::Callback::send(done, result);
        }
        if outcome.is_err() {
            return;
        }
    }
}

#[cfg(sim)]
fn draw_between((min, max): (u64, u64)) -> u64 {
    min + seqsvr_core::sim::draw("log sync") % (max - min + 1)
}

#[cfg(not(sim))]
fn draw_between((min, _): (u64, u64)) -> u64 {
    min
}
