//! Reads a history line by line.
//!
//! Invariant: the reader reads a call completely or rejects the history. A silently skipped line
//! could be the one that convicts. Memory is bounded by one line.

use std::io::{BufRead, Read};

use super::error::Error;
use super::history_format::{HEADER, LINE_MAX, LineProblem, ParsedCall, parse_line};
use super::recorded_call::RecordedCall;

/// Stream of the calls of a history, each with its line number (the header is line 1).
#[derive(Debug)]
pub struct HistoryReader<R> {
    input: R,
    bytes: Vec<u8>,
    line: u64,
}

impl<R: BufRead> HistoryReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The input cannot be read, or is no history of a supported version.
    pub fn new(input: R) -> Result<Self, Error> {
        let mut reader = Self {
            input,
            bytes: Vec::with_capacity(LINE_MAX),
            line: 0,
        };
        // An input without any line has an empty header, which is rejected like any other.
        reader.read_line()?;
        let found = String::from_utf8_lossy(&reader.bytes);
        if found.trim_end() != HEADER {
            let found = found.trim_end().chars().take(60).collect();
            return Err(Error::Header { found });
        }
        Ok(reader)
    }

    /// Reads the next call, borrowed from the reader, which makes the check of a large file cheap.
    pub(crate) fn next_parsed(&mut self) -> Result<Option<(u64, ParsedCall<'_>)>, Error> {
        loop {
            if !self.read_line()? {
                return Ok(None);
            }
            let content = self.bytes.trim_ascii_start();
            if !content.is_empty() && content[0] != b'#' {
                break;
            }
        }
        let line = self.line;
        let text = std::str::from_utf8(&self.bytes).map_err(|_| Error::Line {
            line,
            problem: LineProblem::NotText,
        })?;
        match parse_line(text) {
            Ok(parsed) => Ok(Some((line, parsed))),
            Err(problem) => Err(Error::Line { line, problem }),
        }
    }

    /// Reads one line into `bytes`; false at the end of the input.
    fn read_line(&mut self) -> Result<bool, Error> {
        self.bytes.clear();
        self.line += 1;
        let line = self.line;
        let read = (&mut self.input)
            .take(LINE_MAX as u64)
            .read_until(b'\n', &mut self.bytes)
            .map_err(|source| Error::Read { line, source })?;
        match self.bytes.last() {
            None => Ok(false),
            Some(b'\n') => Ok(true),
            // Without its newline a truncated number would still be a number.
            Some(_) => Err(Error::Line {
                line,
                problem: if read == LINE_MAX {
                    LineProblem::TooLong
                } else {
                    LineProblem::CutShort
                },
            }),
        }
    }
}

impl<R: BufRead> Iterator for HistoryReader<R> {
    type Item = Result<(u64, RecordedCall), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.next_parsed() {
            Ok(next) => next.map(|(line, parsed)| Ok((line, parsed.to_call()))),
            Err(error) => Some(Err(error)),
        }
    }
}
