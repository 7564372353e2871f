//! Faults of a disk in use, the text that the store must log, and the repair.

use super::disk::Disk;

/// Fault of a disk in use.
#[derive(Clone, Copy, Debug)]
pub(super) enum Live {
    Full,
    ReadOnly,
    Dead,
}

impl Live {
    pub(super) fn strike(self, disk: &Disk) {
        match self {
            Live::Full => drop(disk.fill()),
            Live::ReadOnly => disk.turn_read_only().unwrap(),
            Live::Dead => disk.cut().unwrap(),
        }
    }

    /// Returns parts of the running store's error. A write that meets the failing journal is an I/O
    /// error, even where every later write fails as read-only.
    pub(super) fn says(self) -> [&'static str; 2] {
        match self {
            Live::ReadOnly => ["os error", "start this node again"],
            _ => self.says_at_start(),
        }
    }

    pub(super) fn says_at_start(self) -> [&'static str; 2] {
        match self {
            Live::Full => ["No space left on device", "free space"],
            Live::ReadOnly => ["Read-only file system", "make it writable"],
            Live::Dead => ["Input/output error", "the system log may tell why"],
        }
    }

    pub(super) fn mend(self, disk: &mut Disk) {
        match self {
            Live::Full => std::fs::remove_file(disk.mount.join("ballast")).unwrap(),
            Live::ReadOnly | Live::Dead => disk.again().unwrap(),
        }
    }

    /// Returns whether a restart on this disk fails. A full disk may still have space for the
    /// writes of a start.
    pub(super) fn refuses(self) -> bool {
        !matches!(self, Live::Full)
    }
}
