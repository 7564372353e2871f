//! What a process takes of its machine, read from outside: memory, threads, descriptors, disk.

use std::fs;
use std::io;
use std::path::Path;

use rustix::process::Pid;

/// One look at one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vitals {
    /// Resident memory, in bytes.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open files and sockets.
    pub descriptors: u64,
    /// Bytes of its directory's files; 0 for a process without one.
    pub disk: u64,
}

impl Vitals {
    /// Of this process, with the files under `dir`.
    ///
    /// # Errors
    /// The process is gone, or `dir` cannot be read.
    pub fn read(pid: Pid, dir: Option<&Path>) -> io::Result<Vitals> {
        let proc = format!("/proc/{}", pid.as_raw_nonzero());
        let status = fs::read_to_string(format!("{proc}/status"))?;
        let figure = |name: &str| -> io::Result<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let figure = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            figure.ok_or_else(|| io::Error::other(format!("no {name} in {proc}/status")))
        };
        Ok(Vitals {
            memory: figure("VmRSS:")? << 10,
            threads: figure("Threads:")?,
            descriptors: fs::read_dir(format!("{proc}/fd"))?.count() as u64,
            disk: dir.map_or(Ok(0), size)?,
        })
    }

    /// The greater of each figure.
    #[must_use]
    pub fn max(self, other: Vitals) -> Vitals {
        Vitals {
            memory: self.memory.max(other.memory),
            threads: self.threads.max(other.threads),
            descriptors: self.descriptors.max(other.descriptors),
            disk: self.disk.max(other.disk),
        }
    }
}

/// Bytes of all files below a directory that changes meanwhile.
fn size(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Purged between the listing and the look: it takes nothing.
        let Ok(data) = entry.metadata() else { continue };
        sum += if data.is_dir() {
            size(&entry.path())?
        } else {
            data.len()
        };
    }
    Ok(sum)
}
