//! What happens to a disk in use, what the store on it must say, and how it is mended.

use super::disk::Disk;

/// What happens to a disk in use.
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

    /// What a running store says. A write that the failing journal was busy with is an I/O error,
    /// also where every later one is refused as read-only.
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

    /// Whether a start on it is refused; a full disk may still have room for what a start writes.
    pub(super) fn refuses(self) -> bool {
        !matches!(self, Live::Full)
    }
}
