//! Runs of ids as the makers of a scenario write them down, one a line.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;

use rustix::time::{ClockId, clock_gettime};

/// Consecutive positions of one worker, and when they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdRun {
    /// Worker.
    pub worker: u32,
    /// Lane.
    pub lane: u32,
    /// Epoch at which its holder had the worker, if the maker knows it.
    pub epoch: Option<u64>,
    /// First position: tick x capacity + number.
    pub first: u64,
    /// Positions, 1 or more.
    pub count: u64,
    /// [`monotonic_ns`] before the ids were requested.
    pub begin: u64,
    /// [`monotonic_ns`] after they were there.
    pub end: u64,
}

impl fmt::Display for IdRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (worker, lane, epoch) = (self.worker, self.lane, self.epoch.unwrap_or(0));
        let (first, count) = (self.first, self.count);
        let (begin, end) = (self.begin, self.end);
        write!(f, "{worker} {lane} {epoch} {first} {count} {begin} {end}")
    }
}

impl FromStr for IdRun {
    type Err = String;

    fn from_str(line: &str) -> Result<IdRun, String> {
        let numbers: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[worker, lane, epoch, first, count, begin, end]) if count > 0 && begin <= end => {
                Ok(IdRun {
                    worker: u32::try_from(worker).map_err(|e| e.to_string())?,
                    lane: u32::try_from(lane).map_err(|e| e.to_string())?,
                    epoch: (epoch > 0).then_some(epoch),
                    first,
                    count,
                    begin,
                    end,
                })
            }
            _ => Err(format!("{line:?} is no run of ids")),
        }
    }
}

/// Returns the nanoseconds of a clock that all processes of this machine share.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Appends runs to a file. A process that is killed leaves whole lines, and at most one that is
/// cut short.
pub struct RunWriter(File);

impl RunWriter {
    /// Opens the file, and creates it if there is none. Panics if that fails.
    pub fn open(path: &Path) -> RunWriter {
        let file = OpenOptions::new().create(true).append(true).open(path);
        RunWriter(file.expect("the file of runs can be written"))
    }

    /// Writes these runs with one system call. Panics if that fails.
    pub fn write(&mut self, runs: &[IdRun]) {
        let lines: String = runs.iter().map(|run| format!("{run}\n")).collect();
        let written = self.0.write_all(lines.as_bytes());
        written.expect("the file of runs can be written");
    }
}
