//! How often the disk below a directory was told to make its writes durable, as the kernel counts
//! it: the same measure for everybody.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Flushes of the device since the machine started; None where the kernel does not tell.
pub(super) fn flushes(dir: &Path) -> Option<u64> {
    let device = fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    // See Documentation/block/stat.rst of the kernel: the sixteenth field.
    stat.split_whitespace().nth(15)?.parse().ok()
}

/// Type of the file system that holds a directory, and its device.
pub(super) fn file_system(dir: &Path) -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split_whitespace();
        let (device, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        dir.starts_with(at).then_some((at.len(), kind, device))
    });
    match mounts.max_by_key(|(length, ..)| *length) {
        Some((_, kind, device)) => format!("{kind} on {device}"),
        None => "unknown".to_owned(),
    }
}
