//! Code in a forked child of a test.

#![allow(unsafe_code, reason = "`fork` is an unsafe function of libc")]

/// Seconds after which a child that hangs is killed.
const CHILD_TIMEOUT_S: u32 = 10;

/// Runs `child` in a forked child, which then exits, and returns its answer; -1: a signal ended it,
/// 255: a panic. The child has one thread, so it may not wait for another one.
pub fn run_in_forked_child(child: impl FnOnce() -> u8) -> i32 {
    // SAFETY: the child runs on a copy of this thread, and leaves by `_exit`, past all destructors
    // and handlers. glibc makes its allocator usable after a fork; a lock that another thread had
    // is never released, and then the alarm ends the child.
    let process = unsafe { libc::fork() };
    if process == 0 {
        // SAFETY: both calls only concern this process.
        unsafe { libc::alarm(CHILD_TIMEOUT_S) };
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(child));
        // SAFETY: as above.
        unsafe { libc::_exit(caught.map_or(255, i32::from)) };
    }
    assert!(process > 0, "the system makes no child");
    let mut status = 0;
    // SAFETY: `status` is a number that the call may write, and no other code waits for this child.
    let waited = unsafe { libc::waitpid(process, &raw mut status, 0) };
    match waited == process && libc::WIFEXITED(status) {
        true => libc::WEXITSTATUS(status),
        false => -1,
    }
}
