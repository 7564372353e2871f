//! Memory, threads, descriptors and disk space that a process uses, read from outside.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::Pid;

/// Resources used by one process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessStats {
    /// Resident memory, in bytes.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Open files and sockets.
    pub descriptors: u64,
    /// Bytes of the files in its directory; 0 for a process without one.
    pub disk: u64,
}

impl ProcessStats {
    /// Reads the resources of a process, with the files under `dir`.
    ///
    /// # Errors
    /// The process has ended, or `dir` cannot be read.
    pub fn read(pid: Pid, dir: Option<&Path>) -> io::Result<ProcessStats> {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        let status = fs::read_to_string(format!("{proc}/status"))?;
        let figure = |name: &str| -> io::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let figure = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            figure.ok_or_else(|| io::Error::other(format!("no {name} in {proc}/status")))
        };
        Ok(ProcessStats {
            memory_bytes: figure("VmRSS:")? << 10,
            threads: figure("Threads:")?,
            descriptors: fs::read_dir(format!("{proc}/fd"))?.count() as u64,
            disk: dir.map_or(Ok(0), directory_bytes)?,
        })
    }

    /// Returns the greater of each value.
    #[must_use]
    pub fn max(self, other: ProcessStats) -> ProcessStats {
        ProcessStats {
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
            disk: self.disk.max(other.disk),
        }
    }
}

/// Returns the bytes of all files below a directory, which may change during the call.
fn directory_bytes(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Removed between listing and reading: it takes no space.
        let Ok(data) = entry.metadata() else { continue };
        sum += if data.is_dir() {
            directory_bytes(&entry.path())?
        } else {
            data.len()
        };
    }
    Ok(sum)
}
