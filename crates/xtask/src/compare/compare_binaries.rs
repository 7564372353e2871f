//! This tree's binary beside another one, such as that of an earlier commit: the same work on a
//! cluster of each, in turn, in the same run. Each binary's own `seqsvr bench` generates its load.

use std::path::Path;

use super::cases::{ROWS, Row};
use super::measure::median;
use super::report::short;
use super::testbed::{Rig, needs_seqsvr};
use super::workload::bench;
use super::{Failure, Options};

/// Runs the chosen rows that need a cluster, and prints a table in Markdown. Returns false if a
/// work failed; a ratio is no failure, as machines are noisy.
///
/// # Errors
/// The other binary does not exist.
pub(super) async fn run(options: &Options, other: &Path) -> Result<bool, String> {
    let other = std::fs::canonicalize(other)
        .map_err(|error| format!("cannot read {}: {error}", other.display()))?;
    println!("this tree beside {}\n", other.display());
    println!(
        "| row | this tree | other | ratio | lowest to highest ratio |\n|---|---|---|---|---|"
    );
    // Leaked once: processes keep the path of their binary as long as this process runs.
    let other: &'static Path = Box::leak(other.into_boxed_path());
    let mut rigs = [Rig::new(options.time), Rig::new(options.time)];
    rigs[1].binary = Some(other);
    let mut passed = true;
    let is_chosen =
        |row: &&Row| options.only.is_empty() || options.only.iter().any(|name| name == row.name);
    for row in ROWS.iter().filter(is_chosen) {
        if !needs_seqsvr(row.ours) {
            continue;
        }
        match measure(row, &mut rigs, options.rounds).await {
            Ok(rates) => println!("{}", table_row(row, &rates)),
            Err(Failure::Absent(why)) => println!("| {} | | | | skipped: {why} |", row.name),
            Err(Failure::Wrong(why)) => {
                passed = false;
                println!("| {} | | | | FAILED: {why} |", row.name);
            }
        }
    }
    Ok(passed)
}

/// Returns the rates of each round: this tree's, and the other's.
async fn measure(row: &Row, rigs: &mut [Rig; 2], rounds: u32) -> Result<Vec<[f64; 2]>, Failure> {
    for rig in &mut *rigs {
        rig.keep(&[row.ours]);
        if let Some((args, time)) = row.prepare {
            rig.start(row.ours).await?;
            bench(rig, args, None, time)?;
        }
        row.ours.warm_up(rig).await?;
    }
    let mut rates = Vec::new();
    for round in 0..rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut pair = [0.0; 2];
        for side in order {
            pair[side] = row.ours.run(&mut rigs[side]).await?.rate;
        }
        let [ours, other] = pair;
        eprintln!("{} {}/{rounds}: {ours:.0}, {other:.0}", row.name, round + 1);
        rates.push(pair);
    }
    Ok(rates)
}

fn table_row(row: &Row, rates: &[[f64; 2]]) -> String {
    let ratios: Vec<f64> = rates.iter().map(|[ours, other]| ours / other).collect();
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    format!(
        "| {} | {} | {} | {} | {lowest:.2} to {highest:.2} |",
        row.name,
        short(median(rates.iter().map(|pair| pair[0]))),
        short(median(rates.iter().map(|pair| pair[1]))),
        short(median(ratios.into_iter())),
    )
}
