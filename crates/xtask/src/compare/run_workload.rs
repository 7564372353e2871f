//! Runs a workload once, with the generator of its kind.

use std::process::Command;
use std::time::{Duration, Instant};

use seqsvr_test_support::process;
use serde_json::Value;

use super::disk_stats;
use super::error::CompareError;
use super::holders::{start_holders, stop_holders};
use super::run_sample::RunSample;
use super::systems::program::run_to_end;
use super::systems::{redis, wrk};
use super::testbed::Testbed;
use super::workload::{GrpcSystem, Workload};

/// Connections of `seqsvr bench`.
const BENCH_CONNECTIONS: &str = "4";

/// Makes a system of the Redis protocol insert its keys before it is measured. Inserting keys is
/// not steady load.
pub(super) async fn warm_up(workload: Workload, testbed: &mut Testbed) -> Result<(), CompareError> {
    if let Workload::Incr { system, .. } = workload {
        testbed.start(workload).await?;
        redis::touch_keys(&testbed.resp_address(system)?)?;
    }
    Ok(())
}

/// Starts the system that a workload needs, and runs the workload once.
pub(super) async fn run_workload(
    workload: Workload,
    testbed: &mut Testbed,
) -> Result<RunSample, CompareError> {
    testbed.start(workload).await?;
    let data_dir = std::env::temp_dir();
    let (flushes_before, started) = (disk_stats::count_flushes(&data_dir), Instant::now());
    let holders = match workload {
        Workload::BenchBesideHolders(_) => start_holders(&testbed.new_client()?).await?,
        _ => Vec::new(),
    };
    let mut sample = generate_load(workload, testbed)?;
    stop_holders(holders).await;
    let seconds = started.elapsed().as_secs_f64();
    let flushes = flushes_before.zip(disk_stats::count_flushes(&data_dir));
    sample.flush_rate = flushes.map(|(before, after)| (after - before) as f64 / seconds);
    Ok(sample)
}

fn generate_load(workload: Workload, testbed: &mut Testbed) -> Result<RunSample, CompareError> {
    let run_time = testbed.run_time;
    Ok(match workload {
        Workload::Bench(args) | Workload::BenchBesideHolders(args) => {
            run_bench(testbed, args, None, run_time)?
        }
        Workload::HalfPeak(args) => {
            let peak = match testbed.peak_call_rates.get(args) {
                Some(peak) => *peak,
                None => {
                    let sample = run_bench(testbed, args, None, run_time)?;
                    let peak = sample.bench_value("/calls_per_second")?;
                    testbed.peak_call_rates.insert(args, peak);
                    peak
                }
            };
            run_bench(testbed, args, Some(peak / 2.0), run_time)?
        }
        Workload::Unary { system, in_flight } => {
            let kind = match system {
                GrpcSystem::Baseline => "baseline",
                GrpcSystem::Seqsvr => "seqsvr",
                GrpcSystem::Etcd => "etcd",
                GrpcSystem::Tsoracle => "tsoracle",
            };
            let (address, in_flight) = (testbed.grpc_address(system)?, in_flight.to_string());
            let mut args = vec!["--what", kind, "--to", &address, "--in-flight", &in_flight];
            let tls_flags = match system {
                GrpcSystem::Seqsvr => testbed.tls_flags()?,
                _ => Vec::new(),
            };
            args.extend(tls_flags.iter().map(String::as_str));
            run_baseline_load(run_time, &args)?
        }
        Workload::Frames { numbers } => {
            let address = testbed.grpc_address(GrpcSystem::Baseline)?;
            let numbers = numbers.to_string();
            let args = [
                "--what",
                "stream",
                "--to",
                &address,
                "--per-frame",
                &numbers,
            ];
            run_baseline_load(run_time, &args)?
        }
        Workload::Incr {
            system,
            clients,
            pipeline,
        } => {
            let address = testbed.resp_address(system)?;
            RunSample::from_rate(redis::run_incr(&address, clients, pipeline, run_time)?)
        }
        Workload::Get {
            system,
            connections,
        } => {
            let address = testbed.http_address(system)?;
            RunSample::from_rate(wrk::run_gets(&address, connections, run_time)?)
        }
        Workload::Nextval { clients } => {
            RunSample::from_rate(testbed.postgres()?.run_nextval(clients, run_time)?)
        }
        Workload::UpdateRow { clients } => {
            RunSample::from_rate(testbed.postgres()?.run_updates(clients, run_time)?)
        }
    })
}

/// Runs `seqsvr bench`, which verifies what it receives. Calls that failed are a failure.
///
/// `call_rate` is the number of calls per second; None: as many as the system serves.
pub(super) fn run_bench(
    testbed: &Testbed,
    args: &str,
    call_rate: Option<f64>,
    run_time: Duration,
) -> Result<RunSample, CompareError> {
    process::select_binary(testbed.binary);
    let mut command = Command::new(process::release_binary());
    command
        .args(["bench", "--json", "--server"])
        .arg(testbed.grpc_address(GrpcSystem::Seqsvr)?)
        .args(testbed.tls_flags()?)
        .args(["--connections", BENCH_CONNECTIONS])
        .args(["--duration", &format!("{}ms", run_time.as_millis())])
        .args(args.split_whitespace());
    if let Some(rate) = call_rate {
        command.args(["--rate", &format!("{:.0}", rate.max(1.0))]);
    }
    let output = run_to_end(&mut command)?;
    let report: Value = serde_json::from_str(&output).map_err(CompareError::failed)?;
    let errors = report["errors"].as_object();
    if let Some(errors) = errors.filter(|errors| !errors.is_empty()) {
        return Err(CompareError::Failed(format!("calls failed: {errors:?}")));
    }
    let mut sample = RunSample {
        bench_report: Some(report),
        resident_bytes: Some(testbed.alloc_resident_bytes()?),
        ..RunSample::default()
    };
    sample.rate = sample.bench_value("/numbers_per_second")?;
    Ok(sample)
}

/// Runs the generator of the baseline services in a process of its own.
fn run_baseline_load(run_time: Duration, args: &[&str]) -> Result<RunSample, CompareError> {
    let this_binary = std::env::current_exe().map_err(CompareError::failed)?;
    let output = run_to_end(
        Command::new(this_binary)
            .args(["baseline", "load"])
            .args(args)
            .args(["--ms", &run_time.as_millis().to_string()]),
    )?;
    let rate = output.trim().parse().map_err(CompareError::failed)?;
    Ok(RunSample::from_rate(rate))
}
