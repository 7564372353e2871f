//! Compares this service with the baseline services, and with systems that people take numbers from
//! today.
//!
//! A case (`cases`) pairs two workloads. The testbed starts the systems that they need
//! (`systems`). Each workload is run by a generator in a process of its own, in turn
//! (`run_workload`, `measure`), and `report` puts medians, ratios and targets into a table. Valkey
//! is installed into an environment under `target/`; nothing else is installed. A case whose system
//! is not found is skipped, with the reason.

mod cases;
mod charts;
mod compare_pair;
mod disk_stats;
mod error;
mod holders;
mod measure;
mod report;
mod run_sample;
mod run_workload;
mod svg_chart;
pub(crate) mod systems;
mod testbed;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use error::CompareError;
use testbed::Testbed;

/// Options of the comparison.
#[derive(Debug)]
pub struct CompareOptions {
    /// Names of the cases; empty: all.
    pub only: Vec<String>,
    /// Number of runs of each workload.
    pub rounds: u32,
    /// Time for which each run is measured.
    pub run_time: Duration,
    /// Directory for charts; None: no charts.
    pub charts_dir: Option<PathBuf>,
    /// Another seqsvr binary that is compared with that of this tree, instead of other systems.
    pub other_binary: Option<PathBuf>,
    /// Whether a cluster under TLS is compared with one without, instead of other systems.
    pub compares_tls: bool,
}

/// Returns the names and descriptions of the cases, one per line.
pub fn list_cases() -> String {
    cases::list_cases()
}

/// Runs the selected cases and prints the table. Returns false if a workload failed. A missed
/// target is no failure, because machines differ.
///
/// # Errors
/// No case has one of the names, a chart cannot be measured or written, or the other binary does
/// not exist.
pub async fn compare(options: &CompareOptions) -> Result<bool, String> {
    let selected = cases::select_cases(&options.only)?;
    if let Some(other) = &options.other_binary {
        return compare_pair::compare_binaries(options, &selected, other).await;
    }
    if options.compares_tls {
        return Ok(compare_pair::compare_tls(options, &selected).await);
    }
    let mut testbed = Testbed::new(options.run_time);
    println!("{}", report::format_head(options.run_time));
    let mut passed = true;
    for case in selected {
        let result = measure::measure_case(case, &mut testbed, options.rounds).await;
        let row = result.and_then(|result| report::format_row(case, &result));
        passed &= !matches!(row, Err(CompareError::Failed(_)));
        let row = row.unwrap_or_else(|error| report::format_error_row(case, &error));
        println!("{row}");
    }
    if let Some(dir) = &options.charts_dir {
        let drawn = charts::draw_charts(&mut testbed, options.rounds, dir).await;
        drawn.map_err(CompareError::into_text)?;
        println!("charts in {}", dir.display());
    }
    Ok(passed)
}
