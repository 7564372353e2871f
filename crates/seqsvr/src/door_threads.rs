//! Threads of the doors: each serves connections of its own.
//!
//! On threads that share their tasks, one that has found several connections with something to do
//! rings for another, which costs both of them more than a command does.

use std::io;
use std::num::NonZero;

use seqsvr_gateway::Runtimes;
use tokio::runtime::Builder;
use tokio::sync::watch;

/// What processes have that nobody made nicer, and the same between 0 and 99.
#[cfg(target_os = "linux")]
const NICENESS_USUAL: i32 = 0;
#[cfg(target_os = "linux")]
const PRIORITY_USUAL: u8 = 48;

/// A runtime for each core. They end with this.
pub(crate) struct DoorThreads {
    runtimes: Runtimes,
    /// Dropped, it ends them.
    _running: watch::Sender<()>,
}

impl DoorThreads {
    /// Starts them.
    pub(crate) fn start() -> io::Result<DoorThreads> {
        let (running, stopped) = watch::channel(());
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let mut runtimes = Vec::with_capacity(cores);
        for _ in 0..cores {
            // Looked for more arrivals as seldom as tokio does by itself: what has come to many
            // connections is done before the first of their answers is sent.
            let runtime = Builder::new_current_thread().enable_all().build()?;
            runtimes.push(runtime.handle().clone());
            let mut stopped = stopped.clone();
            std::thread::Builder::new()
                .name("door".into())
                .spawn(move || {
                    put_nobody_off();
                    runtime.block_on(stopped.changed())
                })?;
        }
        Ok(DoorThreads {
            runtimes: Runtimes::new(runtimes),
            _running: running,
        })
    }

    /// Where connections may be served.
    pub(crate) fn runtimes(&self) -> Option<Runtimes> {
        Some(self.runtimes.clone())
    }
}

/// Woken up, this thread takes an idle core or waits for its turn, as all threads do, but never
/// puts off the one that runs: that is often the client that has just sent it something and is
/// about to send more.
fn put_nobody_off() {
    // If it is refused all are alike.
    #[cfg(target_os = "linux")]
    let _ = batch();
}

/// The policy SCHED_BATCH.
#[cfg(target_os = "linux")]
fn batch() -> anyhow::Result<()> {
    use thread_priority::{
        NormalThreadSchedulePolicy::{Batch, Other},
        ThreadPriority, ThreadPriorityValue, ThreadSchedulePolicy, set_thread_priority_and_policy,
        thread_native_id, thread_schedule_policy,
    };
    // What was chosen for the process stays: its policy, and its niceness, which the call below
    // sets too.
    let usual = matches!(
        thread_schedule_policy(),
        Ok(ThreadSchedulePolicy::Normal(Other))
    );
    anyhow::ensure!(usual && rustix::process::nice(0)? == NICENESS_USUAL);
    let usual = ThreadPriorityValue::try_from(PRIORITY_USUAL).map_err(anyhow::Error::msg)?;
    set_thread_priority_and_policy(
        thread_native_id(),
        ThreadPriority::Crossplatform(usual),
        ThreadSchedulePolicy::Normal(Batch),
    )
    .map_err(|error| anyhow::anyhow!("{error:?}"))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const SCHED_BATCH: u32 = 3;

    /// Niceness and policy of this process's threads of this name.
    fn threads(name: &str) -> Vec<(i32, u32)> {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
        let stats =
            tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        let named = stats.filter_map(|stat| {
            let (head, rest) = stat.rsplit_once(") ")?;
            let fields: Vec<&str> = rest.split(' ').collect();
            // proc(5) counts from 1, with two before these.
            let about = (fields[19 - 3].parse().ok()?, fields[41 - 3].parse().ok()?);
            head.ends_with(&format!("({name}")).then_some(about)
        });
        named.collect()
    }

    #[test]
    fn they_put_nobody_off_and_are_as_nice_as_before() {
        let tried = std::thread::spawn(batch).join().unwrap();
        if let Err(error) = tried {
            return println!("SKIPPED: the policy is not to be had here: {error}");
        }
        let cores = std::thread::available_parallelism().unwrap().get();
        let _running = DoorThreads::start().unwrap();
        let (wanted, began) = (vec![(NICENESS_USUAL, SCHED_BATCH); cores], Instant::now());
        while threads("door") != wanted {
            let told = threads("door");
            assert!(began.elapsed() < Duration::from_secs(10), "{told:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
