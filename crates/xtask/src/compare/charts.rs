//! Measures and draws two charts: numbers per second by the size of a call, and latency by load.

use std::fs;
use std::path::Path;

use super::error::CompareError;
use super::measure::median;
use super::report::format_short;
use super::run_workload::{run_bench, run_workload};
use super::svg_chart::SvgChart;
use super::testbed::Testbed;
use super::workload::Workload;

/// Numbers of a call, and the arguments of `seqsvr bench` for such calls.
const CALL_SIZES: [(f64, &str); 4] = [
    (1.0, "--in-flight 1024 --keys 1000000"),
    (
        10.0,
        "--mode next-many --batch 10 --in-flight 512 --keys 1000000",
    ),
    (
        100.0,
        "--mode next-many --batch 100 --in-flight 256 --keys 1000000",
    ),
    (
        1_000.0,
        "--mode next-many --batch 1000 --in-flight 64 --keys 1000000",
    ),
];
/// Shares of the peak rate at which the latency is measured.
const LOAD_SHARES: [f64; 6] = [0.1, 0.25, 0.5, 0.7, 0.8, 0.9];
/// Arguments of `seqsvr bench` in open-loop mode.
const OPEN_LOOP: &str = "--in-flight 4096 --keys 1000000";
/// Names of the lines of the latency, and their values in the report of `seqsvr bench`.
const PERCENTILES: [(&str, &str); 3] = [
    ("p50", "/latency_ns/p50"),
    ("p99", "/latency_ns/p99"),
    ("p99.9", "/latency_ns/p99.9"),
];

/// Measures, and writes `throughput.svg` and `latency.svg` into a directory.
pub(super) async fn draw_charts(
    testbed: &mut Testbed,
    rounds: u32,
    dir: &Path,
) -> Result<(), CompareError> {
    fs::create_dir_all(dir).map_err(CompareError::failed)?;
    let write = |name: &str, chart: &SvgChart| {
        fs::write(dir.join(name), chart.to_svg()).map_err(CompareError::failed)
    };
    write(
        "throughput.svg",
        &measure_throughput(testbed, rounds).await?,
    )?;
    write("latency.svg", &measure_latency(testbed, rounds).await?)
}

async fn measure_throughput(testbed: &mut Testbed, rounds: u32) -> Result<SvgChart, CompareError> {
    let (mut seqsvr, mut baseline) = (Vec::new(), Vec::new());
    for (numbers, args) in CALL_SIZES {
        let frames = Workload::Frames {
            numbers: numbers as u32,
        };
        for (workload, line) in [
            (Workload::Bench(args), &mut seqsvr),
            (frames, &mut baseline),
        ] {
            testbed.stop_all_except(&[workload]);
            let mut rates = Vec::new();
            for _ in 0..rounds {
                rates.push(run_workload(workload, testbed).await?.rate);
            }
            line.push((numbers, median(rates.into_iter())));
        }
    }
    Ok(SvgChart {
        title: "Numbers per second, by numbers of a call",
        x_label: "numbers of a call or frame",
        format_y: format_short,
        lines: vec![("seqsvr", seqsvr), ("baseline stream", baseline)],
    })
}

async fn measure_latency(testbed: &mut Testbed, rounds: u32) -> Result<SvgChart, CompareError> {
    let workload = Workload::Bench("--in-flight 1024 --keys 1000000");
    testbed.stop_all_except(&[workload]);
    let peak = run_workload(workload, testbed).await?.rate;
    let mut lines: Vec<(&str, Vec<(f64, f64)>)> =
        PERCENTILES.map(|(name, _)| (name, Vec::new())).into();
    for share in LOAD_SHARES {
        let rate = peak * share;
        let mut samples = Vec::new();
        for _ in 0..rounds {
            samples.push(run_bench(testbed, OPEN_LOOP, Some(rate), testbed.run_time)?);
        }
        for ((_, line), (_, pointer)) in lines.iter_mut().zip(PERCENTILES) {
            let values: Result<Vec<f64>, CompareError> =
                samples.iter().map(|s| s.bench_value(pointer)).collect();
            line.push((rate, median(values?.into_iter())));
        }
    }
    Ok(SvgChart {
        title: "Latency of next, by scheduled calls per second (open loop)",
        x_label: "calls per second",
        format_y: |nanos| format!("{} us", format_short(nanos / 1e3)),
        lines,
    })
}
