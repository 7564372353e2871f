//! The commands about ids that carry the time.

pub(super) mod clock;
pub(super) mod decode;
mod decoded_id;
pub(super) mod families;
pub(super) mod new;
pub(super) mod next;
pub(super) mod opaque;
pub(super) mod stats;

use std::io::{self, BufRead, Read};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the time since the Unix epoch.
#[expect(clippy::disallowed_methods, reason = "ids carry the wall time")]
fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// Reads a line into `line`; returns false at the end of the input. Of a line above `bytes_max` the
/// beginning is read, which is above it too; the rest remains.
fn read_line(input: &mut impl BufRead, bytes_max: usize, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut limited = input.by_ref().take(bytes_max as u64 + 1);
    Ok(limited.read_until(b'\n', line)? > 0)
}
