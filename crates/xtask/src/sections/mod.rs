//! `cargo xtask sections`: the cost of a state with many sections, from the start of a store to a
//! replacement that catches up under load.
//!
//! This process makes the state and puts it into the data directory of the first store, as a
//! restore does. Two more stores join. Then one of them is killed and removed, and a new one with
//! an empty directory joins while entries are written: an operator replaces a store with a lost
//! disk in this way.

mod build_state;
mod measurement;
mod store_group;
mod store_watch;
#[cfg(test)]
mod tests;
mod write_load;

use std::time::{Duration, Instant};

use build_state::build_state;
use measurement::SectionsMeasurement;
use store_group::StoreGroup;
use store_watch::StoreWatch;
use write_load::WriteLoad;

/// Time of one step. A step that takes longer fails the command; it is far above the targets.
const STEP_TIMEOUT: Duration = Duration::from_secs(1_800);
/// Number of reads of the status and the dashboard on an idle cluster.
const IDLE_READS: u32 = 20;
/// Time of the load before the replacement.
const LOAD_TIME_BEFORE: Duration = Duration::from_secs(5);

/// Options of the measurement.
pub struct SectionsOptions {
    /// Number of sections of the state.
    pub count: u64,
    /// Calls per second, each of which writes an entry.
    pub rate: u32,
}

/// Measures and prints a table in Markdown. Returns whether the three targets are met: caught up
/// within 90 s, no election, and at most twice the memory at rest.
///
/// # Errors
/// A step failed or took too long.
pub async fn run_measurement(options: &SectionsOptions) -> Result<bool, String> {
    let measured = measure(options).await?;
    print!("{}", measured.format_table(options.count, options.rate));
    Ok(measured.meets_targets())
}

async fn measure(options: &SectionsOptions) -> Result<SectionsMeasurement, String> {
    let mut measured = SectionsMeasurement::default();
    let report_step = |what: &str| eprintln!("{what} …");

    report_step("building the state");
    let started = Instant::now();
    let count = options.count;
    let state = tokio::task::spawn_blocking(move || build_state(count)).await;
    let state = state.map_err(|e| e.to_string())??;
    measured.build = started.elapsed();
    let started = Instant::now();
    drop(std::hint::black_box(state.clone()));
    measured.copy = started.elapsed();

    report_step("writing the first data directory");
    let started = Instant::now();
    let mut group = StoreGroup::prepare(&state).await?;
    measured.prepare = started.elapsed();
    drop(state);
    measured.snapshot_bytes = group.snapshot_bytes()?;

    report_step("starting the first store");
    let started = Instant::now();
    group.start_first_store();
    let sections = group.wait_until_ready(STEP_TIMEOUT).await?;
    measured.start = started.elapsed();
    if sections < count {
        return Err(format!("the store has {sections} of {count} sections"));
    }
    measured.bytes_at_rest = group.store_memory_bytes(1)?;

    for id in [2, 3] {
        report_step(&format!("adding store {id}"));
        let time = group.add_store(id, STEP_TIMEOUT).await?;
        measured.joins.push(time);
    }
    report_step("starting an AllocSvr; measuring status and dashboard");
    group.start_alloc(STEP_TIMEOUT).await?;
    for _ in 0..IDLE_READS {
        measured.status = measured.status.max(group.time_status().await?);
        measured.page = measured.page.max(group.time_page().await?);
    }

    report_step("load with all stores up to date");
    let load = WriteLoad::start(group.alloc_address(), options.rate)?;
    let watch = StoreWatch::start(&group)?;
    tokio::time::sleep(LOAD_TIME_BEFORE).await;
    measured.entries_before = watch.stop().await?.entries_per_second;
    report_step("replacing store 3 under load");
    group.kill_and_remove_store(3).await?;
    let watch = StoreWatch::start(&group)?;
    let started = Instant::now();
    group.add_store(4, STEP_TIMEOUT).await?;
    let entries = u64::from(options.rate);
    group.wait_until_lag_below(4, entries, STEP_TIMEOUT).await?;
    measured.caught_up = started.elapsed();
    measured.observed = watch.stop().await?;
    measured.load = load.stop().await?;
    Ok(measured)
}
