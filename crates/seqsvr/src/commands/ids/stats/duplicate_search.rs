//! Ids that occur more than once, exactly, in bounded memory.
//!
//! Runs of sorted ids are written to unnamed files and merged. Nothing remains of such a file if
//! the process is killed.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, Write};
use std::path::PathBuf;

use anyhow::Context;
use indicatif::ProgressBar;
use itertools::Itertools as _;

/// Ids that are sorted at once: 64 MiB.
const RUN_IDS: usize = 1 << 22;
/// Bytes of a run that are read or written at once.
const BUFFER_BYTES: usize = 64 << 10;
/// Duplicates that are named, the smallest first.
const NAMED_MAX: usize = 10;

/// Collects ids and finds duplicates.
pub(super) struct DuplicateSearch {
    dir: PathBuf,
    run_ids: usize,
    run: Vec<u128>,
    files: Vec<File>,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FoundDuplicates {
    /// Ids that repeat an earlier one.
    pub(super) repeats: u64,
    /// The smallest of them, and how often each occurs.
    named: Vec<(u128, u64)>,
}

impl DuplicateSearch {
    /// Searches with temporary files in `dir`. They are made if the ids do not fit in memory.
    pub(super) fn new(dir: PathBuf) -> DuplicateSearch {
        DuplicateSearch {
            dir,
            run_ids: RUN_IDS,
            run: Vec::new(),
            files: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_run_ids(mut self, run_ids: usize) -> DuplicateSearch {
        self.run_ids = run_ids;
        self
    }

    /// Adds an id.
    ///
    /// # Errors
    /// A temporary file cannot be written.
    pub(super) fn add(&mut self, id: u128) -> anyhow::Result<()> {
        if self.run.len() == self.run_ids {
            self.run.sort_unstable();
            let file = tempfile::tempfile_in(&self.dir).and_then(|file| self.write_run(file));
            self.files
                .push(file.with_context(|| self.describe_failure())?);
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
        let written = self.files.len() * self.run_ids;
        bar.set_message("ids sorted");
        bar.reset();
        bar.set_length((written + self.run.len()) as u64);
        self.run.sort_unstable();
        let failure = self.describe_failure();
        let files = self.files.into_iter();
        let mut runs: Vec<IdRun> = files
            .map(|file| Box::new(read_run(file)) as IdRun)
            .collect();
        runs.push(Box::new(self.run.into_iter().map(Ok)));
        // An error is before every id.
        let merged = runs
            .into_iter()
            .kmerge_by(|a, b| a.as_ref().ok() < b.as_ref().ok());
        let is_same = |a: &_, b: &_| matches!((a, b), (Ok(a), Ok(b)) if a == b);
        let mut found = FoundDuplicates::default();
        for (times, id) in bar.wrap_iter(merged).dedup_by_with_count(is_same) {
            found.count(id.with_context(|| failure.clone())?, times as u64);
        }
        Ok(found)
    }

    fn describe_failure(&self) -> String {
        format!(
            "the sort on disk failed: it needs 16 bytes an id in {}; name a directory with more \
             space with --tmp",
            self.dir.display()
        )
    }
}

/// Sorted ids.
type IdRun = Box<dyn Iterator<Item = io::Result<u128>>>;

fn read_run(file: File) -> impl Iterator<Item = io::Result<u128>> {
    let mut input = BufReader::with_capacity(BUFFER_BYTES, file);
    std::iter::from_fn(move || {
        let mut id = [0; 16];
        match input.read_exact(&mut id) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => None,
            read => Some(read.map(|()| u128::from_le_bytes(id))),
        }
    })
}

impl FoundDuplicates {
    /// Counts an id that occurs this often.
    pub(super) fn count(&mut self, id: u128, times: u64) {
        if times > 1 {
            self.repeats += times - 1;
            if self.named.len() < NAMED_MAX {
                self.named.push((id, times));
            }
        }
    }

    /// Returns how many ids repeat an earlier one, and the smallest of them as `format` has it.
    pub(super) fn describe(&self, format: impl Fn(u128) -> String) -> String {
        let mut text = self.repeats.to_string();
        for (index, (id, times)) in self.named.iter().enumerate() {
            text.push_str(if index == 0 { ": " } else { ", " });
            text.push_str(&format!("{} ({times} times)", format(*id)));
        }
        text
    }
}
