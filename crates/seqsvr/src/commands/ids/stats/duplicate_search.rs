//! Ids that occur more than once, exactly, in bounded memory.
//!
//! Runs of sorted ids are written to unnamed files and merged. Nothing remains of such a file if
//! the process is killed.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use indicatif::ProgressBar;
use itertools::Itertools as _;

/// Ids that are sorted at once: 64 MiB.
pub(super) const RUN_IDS: usize = 1 << 22;
/// Bytes of a run that are read or written at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Duplicates that are named, the smallest first.
const NAMED_MAX: usize = 10;

/// Collects ids and finds duplicates.
pub(super) struct DuplicateSearch {
    dir: PathBuf,
    run_ids: usize,
    run: Vec<u128>,
    /// Runs that are on disk.
    written: Vec<IdRun>,
}

/// Sorted ids.
type IdRun = Box<dyn Iterator<Item = io::Result<u128>>>;

/// How many ids repeat an earlier one; the smallest of them, and how often each occurs.
pub(super) type FoundDuplicates = (u64, Vec<(u128, usize)>);

impl DuplicateSearch {
    /// Searches with temporary files in `dir`. They are made for more than `run_ids` ids.
    pub(super) fn new(dir: PathBuf, run_ids: usize) -> DuplicateSearch {
        DuplicateSearch {
            dir,
            run_ids,
            run: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Adds an id.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub(super) fn add(&mut self, id: u128) -> anyhow::Result<()> {
        if self.run.len() == self.run_ids {
            self.run.sort_unstable();
            let file = tempfile::tempfile_in(&self.dir).and_then(|file| self.write_run(file));
            let run = read_run(file.with_context(|| describe_failure(&self.dir))?);
            self.written.push(Box::new(run.take(self.run_ids)));
            self.run.clear();
        }
        self.run.push(id);
        Ok(())
    }

    /// Writes the run. The returned file is at its start.
    pub(super) fn write_run(&self, file: File) -> io::Result<File> {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        for id in &self.run {
            out.write_all(&id.to_le_bytes())?;
        }
        let mut file = out.into_inner()?;
        file.rewind()?;
        Ok(file)
    }

    /// Returns the duplicates.
    ///
    /// # Errors
    /// A temporary file cannot be read.
    pub(super) fn finish(mut self, bar: &ProgressBar) -> anyhow::Result<FoundDuplicates> {
        bar.set_message("ids sorted");
        bar.reset();
        bar.set_length((self.written.len() * self.run_ids + self.run.len()) as u64);
        self.run.sort_unstable();
        self.written.push(Box::new(self.run.into_iter().map(Ok)));
        // An error is before every id.
        let is_before = |a: &io::Result<_>, b: &io::Result<_>| a.as_ref().ok() < b.as_ref().ok();
        let merged = self.written.into_iter().kmerge_by(is_before);
        let is_same = |a: &_, b: &_| matches!((a, b), (Ok(a), Ok(b)) if a == b);
        let (mut repeats, mut named) = (0, Vec::new());
        for (times, id) in bar.wrap_iter(merged).dedup_by_with_count(is_same) {
            let id = id.with_context(|| describe_failure(&self.dir))?;
            repeats += times as u64 - 1;
            if times > 1 && named.len() < NAMED_MAX {
                named.push((id, times));
            }
        }
        Ok((repeats, named))
    }
}

/// Reads ids up to the first error; the end of the file is one.
fn read_run(file: File) -> impl Iterator<Item = io::Result<u128>> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, file);
    std::iter::repeat_with(move || {
        let mut id = [0; 16];
        input.read_exact(&mut id)?;
        Ok(u128::from_le_bytes(id))
    })
}

fn describe_failure(dir: &Path) -> String {
    format!(
        "the sort on disk failed: it needs 16 bytes an id in {}; name a directory with more space \
         with --tmp",
        dir.display()
    )
}
