//! The idle scheduling class, for threads that represent another machine.

use std::process::Command;

use rustix::process::Pid;

/// Which threads to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadScope {
    /// The thread with this id.
    One,
    /// All threads of the process with this id.
    All,
}

/// Moves threads into the idle class, so that every other thread preempts them at once.
///
/// On another machine, their work would take no time from the measured caller. A lower priority
/// alone does not achieve that: Linux leaves a running thread its slice of one to three
/// milliseconds, unless it is an idle one.
pub(super) fn move_to_idle_class(id: Pid, threads: ThreadScope) {
    let mut command = Command::new("chrt");
    if threads == ThreadScope::All {
        command.arg("--all-tasks");
    }
    let id = id.as_raw_nonzero().to_string();
    command.args(["--idle", "--pid", "0", &id]);
    let status = command.status().expect("`chrt` of util-linux is installed");
    assert!(status.success(), "chrt: {status}");
}
