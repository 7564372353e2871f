//! Threads of the Redis and HTTP endpoints: each serves connections of its own.
//!
//! In a runtime with work stealing, a thread that finds several ready connections wakes another
//! thread. That costs both threads more than one command does.

use std::io;
use std::num::NonZero;

use seqsvr_gateway::ConnectionRuntimes;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// Niceness of a process that was started without `nice`.
#[cfg(target_os = "linux")]
const USUAL_NICENESS: i32 = 0;
/// That niceness on the scale of `thread_priority`, 0 to 99.
#[cfg(target_os = "linux")]
const USUAL_PRIORITY: u8 = 48;

/// One single-threaded runtime for each core. Dropping this shuts them down.
pub(crate) struct ConnectionThreads {
    runtimes: ConnectionRuntimes,
    /// Ends the threads when it is dropped.
    _running: watch::Sender<()>,
}

impl ConnectionThreads {
    /// Starts one thread for each core.
    pub(crate) fn start() -> io::Result<ConnectionThreads> {
        let (running, stopped) = watch::channel(());
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut runtimes = Vec::with_capacity(cores);
        for _ in 0..cores {
            // The event interval is tokio's default: requests of many connections are served
            // before the first of their answers is sent.
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtimes.push(runtime.handle().clone());
            let mut stopped = stopped.clone();
            std::thread::Builder::new()
                .name("endpoint".into())
                .spawn(move || {
                    set_batch_scheduling();
                    runtime.block_on(stopped.changed())
                })?;
        }
        Ok(ConnectionThreads {
            runtimes: ConnectionRuntimes::new(runtimes),
            _running: running,
        })
    }

    /// Returns handles of the runtimes.
    pub(crate) fn runtimes(&self) -> Option<ConnectionRuntimes> {
        Some(self.runtimes.clone())
    }
}

/// Gives this thread the scheduling policy SCHED_BATCH. When it wakes up it takes an idle core or
/// waits for a time slice, but never preempts the running thread: that is often the client that
/// has just sent a request and is about to send more.
fn set_batch_scheduling() {
    // If the call fails, the thread keeps the usual policy.
    #[cfg(target_os = "linux")]
    let _ = try_set_batch_scheduling();
}

/// Sets SCHED_BATCH for this thread.
///
/// # Errors
/// The process has another policy or niceness than usual, or the system rejects the change.
#[cfg(target_os = "linux")]
fn try_set_batch_scheduling() -> anyhow::Result<()> {
    use thread_priority::{
        NormalThreadSchedulePolicy::{Batch, Other},
        ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id, thread_schedule_policy,
    };
    // Keep a policy or niceness that was chosen for the process: the call below sets both.
    let has_usual_policy = matches!(
        thread_schedule_policy(),
        Ok(ThreadSchedulePolicy::Normal(Other))
    );
    anyhow::ensure!(has_usual_policy && rustix::process::nice(0)? == USUAL_NICENESS);
    let priority = ThreadPriorityValue::try_from(USUAL_PRIORITY).map_err(anyhow::Error::msg)?;
    set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(priority),
        ThreadSchedulePolicy::Normal(Batch),
    )
    .map_err(|error| anyhow::anyhow!("{error:?}"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const SCHED_BATCH: u32 = 3;

    /// Returns niceness and policy of the threads of this process that have this name.
    fn read_thread_policies(name: &str) -> Vec<(i32, u32)> {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        let stats =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        let named = stats.filter_map(|stat| {
            let (head, rest) = stat.rsplit_once(") ")?;
            let fields: Vec<&str> = rest.split(' ').collect();
            // proc(5) counts from 1, and two fields come before these.
            let policy = (fields[19 - 3].parse().ok()?, fields[41 - 3].parse().ok()?);
            head.ends_with(&format!("({name}")).then_some(policy)
        });
        named.collect()
    }

    #[test]
    fn connection_threads_have_batch_policy_and_usual_niceness() {
        let result = std::thread::spawn(try_set_batch_scheduling).join().unwrap();
        if let Err(error) = result {
            return println!("SKIPPED: the policy cannot be set here: {error}");
        }
        let cores = std::thread::available_parallelism().unwrap().get();
        let _running = ConnectionThreads::start().unwrap();
        let (expected, began) = (vec![(USUAL_NICENESS, SCHED_BATCH); cores], Instant::now());
        while read_thread_policies("endpoint") != expected {
            let policies = read_thread_policies("endpoint");
            assert!(began.elapsed() < Duration::from_secs(10), "{policies:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
