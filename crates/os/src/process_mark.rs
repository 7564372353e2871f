//! The process in which a value was made, so that a copy in a forked child is recognized.
//!
//! Invariant: in a child no copied value passes for its own, from its first instruction on.
//! Schedule that breaks a comparison of process ids once a tick: a process forks, and parent and
//! child make the same ids for the rest of that tick. So libc calls a handler in the child before
//! `fork` returns there, and a check reads one number. A child that is made by a bare system call,
//! or by `_Fork` of glibc, which runs no handler either, is not recognized.

#![allow(
    unsafe_code,
    reason = "a function of libc registers the handler of forks"
)]

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and its oldest ancestor that made a mark.
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_fork() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Mark of the process in which a value was made.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMark {
    forks: u32,
    process_id: u32,
}

impl ProcessMark {
    /// Makes the mark of this process.
    ///
    /// # Errors
    /// The system cannot report forks.
    pub fn new() -> io::Result<ProcessMark> {
        static REGISTERED: OnceLock<i32> = OnceLock::new();
        let error = *REGISTERED.get_or_init(|| {
            // SAFETY: the handler is a function of this program, so it outlives the registration.
            // It changes one atomic number, which a child of a process with threads may do.
            unsafe { libc::pthread_atfork(None, None, Some(count_fork)) }
        });
        match error {
            0 => Ok(ProcessMark {
                forks: FORKS.load(Ordering::Relaxed),
                process_id: std::process::id(),
            }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Returns whether this is the process that made the mark, and no child of it.
    #[inline]
    pub fn is_current(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    /// Returns the id of the process that made the mark.
    pub fn process_id(&self) -> u32 {
        self.process_id
    }
}
