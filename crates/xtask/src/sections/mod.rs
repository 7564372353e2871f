//! `cargo xtask sections`: what a state of many sections costs, from the start of a store to a
//! replacement that catches up under load.
//!
//! The state is made in this process and put into the data directory of the first store, as a
//! restore does. Two more stores join. Then one of them is killed and removed, and a new one with
//! an empty directory joins while entries are written. That is how a store whose disk is lost is
//! replaced.

mod build_state;
mod store_group;
mod store_watch;
#[cfg(test)]
mod tests;
mod write_load;

use std::time::{Duration, Instant};

use store_group::Rig;
use store_watch::Watch;

/// Time of a step in all. The bar is far below.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// Rounds of status and page on an idle cluster.
const ROUNDS: u32 = 20;
/// Time of load before the replacement.
const IN_STEP: Duration = Duration::from_secs(5);
/// Wanted: a replacement has caught up within this time.
const CAUGHT_UP_WITHIN: Duration = Duration::from_secs(90);
/// Wanted: the peak memory of a store is at most this many times what its state takes at rest.
const MEMORY_TIMES: f64 = 2.0;

/// What to run.
pub struct Options {
    /// Sections of the state.
    pub count: u64,
    /// Calls a second, each of which writes an entry.
    pub rate: u32,
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Measured {
    /// Making the state in memory.
    pub build: Duration,
    /// Copying the state, as a snapshot or a backup does under the lock that entries need.
    pub copy: Duration,
    /// Writing the data directory of the first store.
    pub prepare: Duration,
    /// From the start of a store on that directory until it answers.
    pub start: Duration,
    /// Bytes of its snapshot.
    pub snapshot_bytes: u64,
    /// Resident memory of that store at rest.
    pub at_rest: u64,
    /// Two stores join, without load.
    pub joins: Vec<Duration>,
    /// Longest status of the idle cluster.
    pub status: Duration,
    /// Longest page of the idle cluster.
    pub page: Duration,
    /// Entries written a second under load, with all stores in step.
    pub entries_before: f64,
    /// From the empty store's joining until it lags by less than a second of load, and votes.
    pub caught_up: Duration,
    /// What was seen while the replacement caught up.
    pub seen: store_watch::Seen,
    /// Calls of the load: answered, failed, and the longest.
    pub load: write_load::Calls,
}

/// Measures and prints a table in Markdown. Returns whether the three bars were met: caught up in
/// 90 s, no election, and at most twice the memory at rest.
///
/// # Errors
/// A step failed or took too long.
pub async fn run(options: &Options) -> Result<bool, String> {
    let measured = measure(options).await?;
    print!("{}", measured.table(options));
    Ok(measured.is_fine())
}

/// Runs all steps.
///
/// # Errors
/// A step failed or took too long.
pub async fn measure(options: &Options) -> Result<Measured, String> {
    let mut measured = Measured::default();
    let step = |what: &str| eprintln!("{what} …");

    step("making the state");
    let begun = Instant::now();
    let count = options.count;
    let made = tokio::task::spawn_blocking(move || build_state::make(count)).await;
    let made = made.map_err(|e| e.to_string())??;
    measured.build = begun.elapsed();
    let begun = Instant::now();
    drop(std::hint::black_box(made.clone()));
    measured.copy = begun.elapsed();

    step("writing the first data directory");
    let begun = Instant::now();
    let mut rig = Rig::prepare(&made).await?;
    measured.prepare = begun.elapsed();
    drop(made);
    measured.snapshot_bytes = rig.snapshot_bytes()?;

    step("starting the first store");
    let begun = Instant::now();
    rig.start_first();
    let known = rig.answers(PATIENCE).await?;
    measured.start = begun.elapsed();
    if known < count {
        return Err(format!("the store knows {known} of {count} sections"));
    }
    measured.at_rest = rig.memory(1)?;

    for id in [2, 3] {
        step(&format!("store {id} joins"));
        measured.joins.push(rig.join(id, PATIENCE).await?);
    }
    step("starting an AllocSvr; measuring status and page");
    rig.start_alloc(PATIENCE).await?;
    for _ in 0..ROUNDS {
        measured.status = measured.status.max(rig.status().await?);
        measured.page = measured.page.max(rig.page().await?);
    }

    step("load with all stores in step");
    let load = write_load::Load::start(rig.alloc_address(), options.rate)?;
    let watch = Watch::start(&rig)?;
    tokio::time::sleep(IN_STEP).await;
    measured.entries_before = watch.stop().await?.entries_per_second;
    step("replacing store 3 under load");
    rig.remove(3).await?;
    let watch = Watch::start(&rig)?;
    let begun = Instant::now();
    rig.join(4, PATIENCE).await?;
    rig.lags_less_than(4, u64::from(options.rate), PATIENCE)
        .await?;
    measured.caught_up = begun.elapsed();
    measured.seen = watch.stop().await?;
    measured.load = load.stop().await?;
    Ok(measured)
}

impl Measured {
    /// Whether the bars were met.
    pub fn is_fine(&self) -> bool {
        self.caught_up <= CAUGHT_UP_WITHIN
            && self.seen.elections == 0
            && self.memory_times() <= MEMORY_TIMES
    }

    /// Peak memory of any store over the memory at rest.
    pub fn memory_times(&self) -> f64 {
        self.seen.memory as f64 / self.at_rest.max(1) as f64
    }

    fn table(&self, options: &Options) -> String {
        let s = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
        let joins = self.joins.iter().map(|join| s(*join)).collect::<Vec<_>>();
        let rows = [
            ("making the state", s(self.build)),
            ("copying it, and dropping the copy", ms(self.copy)),
            ("writing the first data directory", s(self.prepare)),
            ("snapshot file", mib(self.snapshot_bytes)),
            ("start of a store until it answers", s(self.start)),
            ("memory of that store at rest", mib(self.at_rest)),
            ("joins of two stores, without load", joins.join(", ")),
            ("longest status, without load", ms(self.status)),
            ("longest page, without load", ms(self.page)),
            (
                "entries a second, under load with all stores in step",
                format!("{:.0}", self.entries_before),
            ),
            (
                "replacement caught up, under load (bar: 90 s)",
                s(self.caught_up),
            ),
            (
                "entries a second during that",
                format!("{:.0}", self.seen.entries_per_second),
            ),
            (
                "elections during that (bar: 0)",
                self.seen.elections.to_string(),
            ),
            (
                "longest silence between leader and voter during that",
                ms(self.seen.silence),
            ),
            ("longest status during that", ms(self.seen.status)),
            ("longest page during that", ms(self.seen.page)),
            ("longest call during that", ms(self.load.longest)),
            (
                "calls answered, failed",
                format!("{}, {}", self.load.answered, self.load.failed),
            ),
            (
                "peak memory of a store (bar: 2 times at rest)",
                format!(
                    "{}, {:.2} times",
                    mib(self.seen.memory),
                    self.memory_times()
                ),
            ),
        ];
        let mut text = format!(
            "{} sections, {} calls a second\n\n| step | value |\n|---|---|\n",
            options.count, options.rate
        );
        for (what, value) in rows {
            text.push_str(&format!("| {what} | {value} |\n"));
        }
        let verdict = if self.is_fine() { "met" } else { "NOT met" };
        text.push_str(&format!("\nThe bars are {verdict}.\n"));
        text
    }
}
