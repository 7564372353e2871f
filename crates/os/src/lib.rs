//! Calls of the operating system that a simulation replaces: work that may block, syncs of files,
//! the id of this boot, and randomness; and the mark of a process, which a fork does not copy.
//!
//! What it may not know: which crate calls it, and what its files hold.

mod process_mark;
#[cfg(sim)]
pub mod simulated_files;

use std::fs::File;
use std::io;
use std::path::Path;

#[cfg(not(sim))]
use rand::{TryRng, rngs::SysRng};
use tokio::task::JoinHandle;

pub use process_mark::ProcessMark;

/// Starts work that may block, on a thread for such work. A simulation has one thread, so there it
/// is a task.
pub fn spawn_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    #[cfg(not(sim))]
    return tokio::task::spawn_blocking(work);
    #[cfg(sim)]
    tokio::spawn(async move {
        let ms = seqsvr_core::sim::draw_number("blocking work") % 3;
        tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
        work()
    })
}

/// Waits until the content of a file is durable.
///
/// # Errors
/// The disk does not accept it.
pub fn sync_file(file: &File) -> io::Result<()> {
    #[cfg(not(sim))]
    return file.sync_all();
    #[cfg(sim)]
    simulated_files::sync_content(file)
}

/// Waits until the names in a directory are durable.
///
/// # Errors
/// The directory cannot be opened, or the disk does not accept the names.
pub fn sync_dir(dir: &Path) -> io::Result<()> {
    #[cfg(not(sim))]
    return File::open(dir)?.sync_all();
    #[cfg(sim)]
    simulated_files::sync_dir(dir)
}

/// Returns the id of this boot of the machine.
///
/// # Errors
/// The system does not provide it.
pub fn boot_id() -> io::Result<String> {
    #[cfg(not(sim))]
    return std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    #[cfg(sim)]
    Ok(seqsvr_core::sim::current_boot())
}

/// Returns a number that no other process draws, also not a forked copy of this one.
///
/// # Errors
/// The system provides no randomness.
pub fn unique_u128() -> io::Result<u128> {
    #[cfg(not(sim))]
    {
        let mut bytes = [0; 16];
        SysRng.try_fill_bytes(&mut bytes)?;
        Ok(u128::from_le_bytes(bytes))
    }
    #[cfg(sim)]
    {
        let (high, low) = (random_u64(), random_u64());
        Ok(u128::from(high) << 64 | u128::from(low))
    }
}

/// Returns a random number. A forked child draws the numbers of its parent again.
pub fn random_u64() -> u64 {
    #[cfg(not(sim))]
    return rand::random();
    #[cfg(sim)]
    seqsvr_core::sim::draw_number("random")
}
