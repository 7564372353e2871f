//! The idle scheduling class, for what stands for another machine.

use std::process::Command;

use rustix::process::Pid;

/// Which threads are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Threads {
    /// The thread with this id.
    One,
    /// All threads of the process with this id.
    All,
}

/// Moves threads into the idle class, so that every other thread takes its core at once.
///
/// On a machine of its own, what they do would take the measured caller no time. A lower priority
/// alone does not do that: Linux leaves a running thread its slice of one to three milliseconds,
/// unless it is an idle one.
pub(super) fn move_to_idle_class(id: Pid, threads: Threads) {
    let mut command = Command::new("chrt");
    if threads == Threads::All {
        command.arg("--all-tasks");
    }
    let id = id.as_raw_nonzero().to_string();
    command.args(["--idle", "--pid", "0", &id]);
    let status = command.status().expect("`chrt` of util-linux is installed");
    assert!(status.success(), "chrt: {status}");
}
