//! Faults of a disk in use, the text that the store must log, and the repair.

use super::disk::Disk;

/// Fault of a disk in use.
#[derive(Clone, Copy, Debug)]
pub(super) enum LiveFault {
    Full,
    ReadOnly,
    Dead,
}

impl LiveFault {
    pub(super) fn inject(self, disk: &Disk) {
        match self {
            LiveFault::Full => drop(disk.fill()),
            LiveFault::ReadOnly => disk.turn_read_only().unwrap(),
            LiveFault::Dead => disk.cut().unwrap(),
        }
    }

    /// Returns parts of the running store's error. A write that meets the failing journal is an I/O
    /// error, even where every later write fails as read-only.
    pub(super) fn error_texts(self) -> [&'static str; 2] {
        match self {
            LiveFault::ReadOnly => ["os error", "start this node again"],
            _ => self.start_error_texts(),
        }
    }

    pub(super) fn start_error_texts(self) -> [&'static str; 2] {
        match self {
            LiveFault::Full => ["No space left on device", "free space"],
            LiveFault::ReadOnly => ["Read-only file system", "make it writable"],
            LiveFault::Dead => ["Input/output error", "the system log may have the reason"],
        }
    }

    pub(super) fn repair(self, disk: &mut Disk) {
        match self {
            LiveFault::Full => std::fs::remove_file(disk.mount.join("ballast")).unwrap(),
            LiveFault::ReadOnly | LiveFault::Dead => disk.again().unwrap(),
        }
    }

    /// Returns whether a restart on this disk fails. A full disk may still have space for the
    /// writes of a start.
    pub(super) fn rejects_start(self) -> bool {
        !matches!(self, LiveFault::Full)
    }
}
