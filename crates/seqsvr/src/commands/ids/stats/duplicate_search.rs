//! Ids that occur more than once, exactly, in bounded memory.
//!
//! Runs of sorted ids are written one after the other to one unnamed file, and merged. One file
//! needs one descriptor for any number of runs, and nothing remains of it if the process is killed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use anyhow::Context;
use indicatif::ProgressBar;

/// Ids that are sorted at once: 64 MiB.
const RUN_IDS: usize = 1 << 22;
/// Memory of the buffers of a merge, and the least of one buffer, in bytes.
const MERGE_BYTES: usize = 32 << 20;
const MERGE_BUFFER_BYTES_MIN: usize = 4 << 10;
/// Duplicates that are named, the smallest first.
const NAMED_MAX: usize = 10;
/// Ids between two movements of the bar.
const BAR_STEP_IDS: u64 = 1 << 16;

/// Collects ids and finds duplicates.
pub(super) struct DuplicateSearch {
    dir: PathBuf,
    run_ids: usize,
    run: Vec<u128>,
    file: Option<File>,
    spans: Vec<RunSpan>,
}

/// Where a run lies in the file.
#[derive(Clone, Copy)]
struct RunSpan {
    start: u64,
    end: u64,
    /// Bytes of an id: 8, or 16 if one of the run has more than 64 bits.
    id_bytes: usize,
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
    /// Searches with a temporary file in `dir`. It is made when the ids do not fit in memory.
    pub(super) fn new(dir: PathBuf) -> DuplicateSearch {
        DuplicateSearch {
            dir,
            run_ids: RUN_IDS,
            run: Vec::new(),
            file: None,
            spans: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn with_run_ids(mut self, run_ids: usize) -> DuplicateSearch {
        self.run_ids = run_ids;
        self
    }

    #[cfg(test)]
    pub(super) fn use_file(&mut self, file: File) {
        self.file = Some(file);
    }

    /// Adds an id.
    ///
    /// # Errors
    /// The temporary file cannot be written.
    pub(super) fn add(&mut self, id: u128) -> anyhow::Result<()> {
        if self.run.len() == self.run_ids {
            self.write_run().with_context(|| self.describe_failure())?;
        }
        self.run.push(id);
        Ok(())
    }

    /// Returns the duplicates.
    ///
    /// # Errors
    /// The temporary file cannot be written or read.
    pub(super) fn finish(mut self, bar: &ProgressBar) -> anyhow::Result<FoundDuplicates> {
        let mut found = FoundDuplicates::default();
        if self.file.is_none() {
            self.run.sort_unstable();
            for ids in self.run.chunk_by(|a, b| a == b) {
                found.count(ids[0], ids.len() as u64);
            }
            return Ok(found);
        }
        let merged = self.write_run().and_then(|()| self.merge(bar, &mut found));
        merged.with_context(|| self.describe_failure())?;
        Ok(found)
    }

    fn describe_failure(&self) -> String {
        format!(
            "the sort on disk failed: it needs 8 bytes an id (16 above 64 bits) in {}; name a \
             directory with more space with --tmp",
            self.dir.display()
        )
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.run.sort_unstable();
        let is_wide = self
            .run
            .last()
            .is_some_and(|id| u64::try_from(*id).is_err());
        let id_bytes = if is_wide { 16 } else { 8 };
        let start = self.spans.last().map_or(0, |span| span.end);
        let file = match self.file.take() {
            Some(file) => file,
            None => tempfile::tempfile_in(&self.dir)?,
        };
        let mut out = BufWriter::with_capacity(1 << 20, self.file.insert(file));
        for id in &self.run {
            out.write_all(&id.to_le_bytes()[..id_bytes])?;
        }
        out.flush()?;
        let end = start + (self.run.len() * id_bytes) as u64;
        self.spans.push(RunSpan {
            start,
            end,
            id_bytes,
        });
        self.run.clear();
        Ok(())
    }

    fn merge(&mut self, bar: &ProgressBar, found: &mut FoundDuplicates) -> io::Result<()> {
        // The buffers of the merge take the place of the run.
        self.run = Vec::new();
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let buffer_bytes = (MERGE_BYTES / self.spans.len()).max(MERGE_BUFFER_BYTES_MIN);
        let ids = |span: &RunSpan| (span.end - span.start) / span.id_bytes as u64;
        bar.set_message("ids sorted");
        bar.reset();
        bar.set_length(self.spans.iter().map(ids).sum());
        let readers = self
            .spans
            .iter()
            .map(|span| RunReader::new(file, *span, buffer_bytes));
        let mut readers: Vec<_> = readers.collect();
        let mut heads = BinaryHeap::new();
        for (index, reader) in readers.iter_mut().enumerate() {
            heads.extend(reader.next_id()?.map(|id| Reverse((id, index))));
        }
        let mut current = None;
        let mut merged = 0u64;
        while let Some(mut head) = heads.peek_mut() {
            let Reverse((id, index)) = *head;
            current = match current {
                Some((same, times)) if same == id => Some((same, times + 1)),
                Some((before, times)) => {
                    found.count(before, times);
                    Some((id, 1))
                }
                None => Some((id, 1)),
            };
            match readers[index].next_id()? {
                Some(next) => *head = Reverse((next, index)),
                None => _ = std::collections::binary_heap::PeekMut::pop(head),
            }
            merged += 1;
            if merged.is_multiple_of(BAR_STEP_IDS) {
                bar.inc(BAR_STEP_IDS);
            }
        }
        if let Some((last, times)) = current {
            found.count(last, times);
        }
        Ok(())
    }
}

/// Reads the ids of a run.
struct RunReader<'a> {
    bytes: BufReader<SpanBytes<'a>>,
    id_bytes: usize,
}

/// The bytes of a run.
struct SpanBytes<'a> {
    file: &'a File,
    span: RunSpan,
}

impl<'a> RunReader<'a> {
    fn new(file: &'a File, span: RunSpan, buffer_bytes: usize) -> RunReader<'a> {
        RunReader {
            bytes: BufReader::with_capacity(buffer_bytes, SpanBytes { file, span }),
            id_bytes: span.id_bytes,
        }
    }

    fn next_id(&mut self) -> io::Result<Option<u128>> {
        let source = self.bytes.get_ref();
        if source.span.start == source.span.end && self.bytes.buffer().is_empty() {
            return Ok(None);
        }
        let mut id = [0; 16];
        self.bytes.read_exact(&mut id[..self.id_bytes])?;
        Ok(Some(u128::from_le_bytes(id)))
    }
}

impl Read for SpanBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.span.end - self.span.start;
        let length = buffer
            .len()
            .min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.file.read_at(&mut buffer[..length], self.span.start)?;
        self.span.start += read as u64;
        Ok(read)
    }
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
