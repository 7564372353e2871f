//! Compares two clusters, in turn under the same workload: of the binary of this tree and of
//! another one, such as that of an earlier commit; or under TLS and without. Each binary's own
//! `seqsvr bench` generates its load.

use std::path::Path;

use super::CompareOptions;
use super::cases::Case;
use super::error::CompareError;
use super::measure::median;
use super::report::format_short;
use super::run_workload::{run_bench, run_workload, warm_up};
use super::testbed::{Testbed, needs_seqsvr};

/// Runs those cases that need a cluster, and prints a table in Markdown. Returns false if a
/// workload failed. A ratio is no failure, because machines are noisy.
///
/// # Errors
/// The other binary does not exist.
pub(super) async fn compare_binaries(
    options: &CompareOptions,
    cases: &[&Case],
    other: &Path,
) -> Result<bool, String> {
    let other = std::fs::canonicalize(other)
        .map_err(|error| format!("cannot read {}: {error}", other.display()))?;
    println!("this tree compared with {}\n", other.display());
    // Leaked once: processes keep the path of their binary as long as this process runs.
    let other: &'static Path = Box::leak(other.into_boxed_path());
    let run_time = options.run_time;
    let mut testbeds = [Testbed::new(run_time), Testbed::new(run_time)];
    testbeds[1].binary = Some(other);
    Ok(compare_testbeds(options, cases, testbeds, ["this tree", "other"]).await)
}

/// Runs those cases that need a cluster, and prints a table in Markdown. Returns false if a
/// workload failed.
pub(super) async fn compare_tls(options: &CompareOptions, cases: &[&Case]) -> bool {
    let run_time = options.run_time;
    let mut testbeds = [Testbed::new(run_time), Testbed::new(run_time)];
    testbeds[0].is_secured = true;
    compare_testbeds(options, cases, testbeds, ["TLS", "plaintext"]).await
}

async fn compare_testbeds(
    options: &CompareOptions,
    cases: &[&Case],
    mut testbeds: [Testbed; 2],
    [first, second]: [&str; 2],
) -> bool {
    println!(
        "| case | {first} | {second} | ratio | lowest to highest ratio |\n|---|---|---|---|---|"
    );
    let mut passed = true;
    for case in cases.iter().filter(|case| needs_seqsvr(case.workload)) {
        match measure_pair(case, &mut testbeds, options.rounds).await {
            Ok(rates) => println!("{}", format_row(case, &rates)),
            Err(CompareError::Unavailable(why)) => {
                println!("| {} | | | | skipped: {why} |", case.name);
            }
            Err(CompareError::Failed(why)) => {
                passed = false;
                println!("| {} | | | | FAILED: {why} |", case.name);
            }
        }
    }
    passed
}

/// Returns the rates of each round: those of the first and of the second testbed.
async fn measure_pair(
    case: &Case,
    testbeds: &mut [Testbed; 2],
    rounds: u32,
) -> Result<Vec<[f64; 2]>, CompareError> {
    for testbed in &mut *testbeds {
        testbed.stop_all_except(&[case.workload]);
        if let Some((args, time)) = case.preparation {
            testbed.start(case.workload).await?;
            run_bench(testbed, args, None, time)?;
        }
        warm_up(case.workload, testbed).await?;
    }
    let mut rates = Vec::new();
    for round in 0..rounds {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        let mut pair = [0.0; 2];
        for side in order {
            let sample = run_workload(case.workload, &mut testbeds[side]).await?;
            pair[side] = sample.rate;
        }
        let [ours, other] = pair;
        eprintln!(
            "{} {}/{rounds}: {ours:.0}, {other:.0}",
            case.name,
            round + 1
        );
        rates.push(pair);
    }
    Ok(rates)
}

fn format_row(case: &Case, rates: &[[f64; 2]]) -> String {
    let ratios: Vec<f64> = rates.iter().map(|[ours, other]| ours / other).collect();
    let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = ratios.iter().copied().fold(0.0, f64::max);
    format!(
        "| {} | {} | {} | {} | {lowest:.2} to {highest:.2} |",
        case.name,
        format_short(median(rates.iter().map(|pair| pair[0]))),
        format_short(median(rates.iter().map(|pair| pair[1]))),
        format_short(median(ratios.into_iter())),
    )
}
