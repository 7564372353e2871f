//! What this service does in comparison: with the bare loop below it, and with the systems that
//! people take numbers from today.
//!
//! How data passes through: `cases` pairs two works, `testbed` starts the servers they need, each work
//! (`workload`) is done by a generator of its own process, one and the other in turn, and `report` puts
//! medians, ratios and bars in a table. Valkey is fetched into an environment under `target/`.
//! Nothing else is installed: a peer that is not found is left out, with the reason.

mod cases;
mod charts;
mod compare_binaries;
mod disk_stats;
mod measure;
mod report;
mod systems;
mod testbed;
mod workload;

use std::path::PathBuf;
use std::time::Duration;

use cases::ROWS;
use testbed::Rig;

/// What is run.
#[derive(Debug)]
pub struct Options {
    /// Names of the rows; empty: all.
    pub only: Vec<String>,
    /// How often each side of a row is run.
    pub rounds: u32,
    /// How long each run is measured.
    pub time: Duration,
    /// Where pictures are put.
    pub pictures: Option<PathBuf>,
    /// Another binary to compare this tree's with, instead of the peers.
    pub against: Option<PathBuf>,
}

/// Why a work could not be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What it needs is not here.
    Absent(String),
    /// It went wrong.
    Wrong(String),
}

impl Failure {
    fn wrong(error: impl std::fmt::Display) -> Failure {
        Failure::Wrong(error.to_string())
    }
}

/// Names and purposes of the rows, one a line.
pub fn list() -> String {
    let width = ROWS.iter().map(|r| r.name.len()).max().unwrap_or_default();
    let line = |row: &cases::Row| format!("{:width$}  {}\n", row.name, row.about);
    ROWS.iter().map(line).collect()
}

/// Runs what was chosen and prints the table. False if a work went wrong; a bar that is not met is
/// no failure, as machines differ.
///
/// # Errors
/// A name that no row has; the text lists the names. A picture that cannot be written.
pub async fn run(options: &Options) -> Result<bool, String> {
    if let Some(unknown) = options
        .only
        .iter()
        .find(|o| ROWS.iter().all(|r| r.name != **o))
    {
        return Err(format!("no row is named {unknown}; there are:\n{}", list()));
    }
    if let Some(binary) = &options.against {
        return compare_binaries::run(options, binary).await;
    }
    let mut rig = Rig::new(options.time);
    println!("{}", report::machine(&rig));
    let mut fine = true;
    let chosen =
        |r: &&cases::Row| options.only.is_empty() || options.only.iter().any(|o| o == r.name);
    for row in ROWS.iter().filter(chosen) {
        let result = measure::measure(row, &mut rig, options.rounds).await;
        fine &= !matches!(result, Err(Failure::Wrong(_)));
        println!("{}", report::row(row, &result));
    }
    if let Some(dir) = &options.pictures {
        match charts::draw(&mut rig, options.rounds, dir).await {
            Ok(()) => println!("pictures in {}", dir.display()),
            Err(Failure::Absent(why) | Failure::Wrong(why)) => return Err(why),
        }
    }
    Ok(fine)
}
