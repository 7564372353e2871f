//! What the kernel reports about the disk of a directory. It counts the flushes of all systems in
//! the same way.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Returns the flushes of the directory's device since the machine started; None if the kernel does
/// not count them.
pub(super) fn count_flushes(dir: &Path) -> Option<u64> {
    let device = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    // The sixteenth field, see Documentation/block/stat.rst of the kernel.
    stat.split_whitespace().nth(15)?.parse().ok()
}

/// Returns the type of the file system that holds a directory, and its device.
pub(super) fn describe_file_system(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (device, mount_point, kind) = (fields.next()?, fields.next()?, fields.next()?);
        dir.starts_with(mount_point)
            .then_some((mount_point.len(), kind, device))
    });
    match mounts.max_by_key(|(length, ..)| *length) {
        Some((_, kind, device)) => format!("{kind} on {device}"),
        None => "unknown".to_owned(),
    }
}
