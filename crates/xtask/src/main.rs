//! `cargo xtask`: the chores of the project on the command line. Results go to stdout. The exit
//! code is 0 if all results are as expected, 1 if not, and 2 if a chore could not be run.

mod cli;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use cli::{BaselineCommand, XtaskCli, XtaskCommand};
use seqsvr_test_support::process;
use xtask::{
    acceptance, baseline, compare, conformance, fuzz, instruction_count, memory_budget, schema,
    sections, sim, tidy,
};

fn main() -> ExitCode {
    match run_command(XtaskCli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{}", error.trim_end());
            ExitCode::from(2)
        }
    }
}

/// Runs a chore. Returns whether all results are as expected.
fn run_command(command: XtaskCommand) -> Result<bool, String> {
    match command {
        XtaskCommand::Accept { list: true, .. } => {
            print!("{}", acceptance::list_scenarios());
            Ok(true)
        }
        XtaskCommand::Accept {
            soak: Some(minutes),
            ..
        } => Ok(acceptance::run_soak(Duration::from_secs(60 * minutes))),
        XtaskCommand::Accept {
            only,
            rounds,
            unleased,
            ..
        } => {
            let options = acceptance::AcceptanceOptions { only, rounds };
            match unleased {
                true => acceptance::run_unleased(&options),
                false => acceptance::run_scenarios(&options),
            }
        }
        XtaskCommand::Compare { list: true, .. } => {
            print!("{}", compare::list_cases());
            Ok(true)
        }
        XtaskCommand::Compare {
            only,
            rounds,
            ms,
            pictures,
            against,
            tls,
            ..
        } => block_on(compare::compare(&compare::CompareOptions {
            only,
            rounds,
            run_time: Duration::from_millis(ms),
            charts_dir: pictures,
            other_binary: against,
            compares_tls: tls,
        })),
        XtaskCommand::CountInstructions => instruction_count::count_instructions().map(|()| true),
        XtaskCommand::Memory {
            budget_mib,
            base_mib,
            minutes,
        } => block_on(memory_budget::measure_memory(
            &memory_budget::MemoryOptions {
                budget_mib,
                base_mib,
                time: Duration::from_secs(60 * minutes),
            },
        )),
        XtaskCommand::Sections {
            count,
            rate,
            binary,
        } => {
            if let Some(binary) = binary {
                process::select_binary(Some(Box::leak(binary.into_boxed_path())));
            }
            block_on(sections::run_measurement(&sections::SectionsOptions {
                count,
                rate,
            }))
        }
        XtaskCommand::Fuzz { only, seconds } => {
            fuzz::run_targets(&only, Duration::from_secs(seconds))
        }
        XtaskCommand::Schema {
            binary,
            examples,
            seed,
            seconds,
        } => schema::test_document(&schema::SchemaOptions {
            binary,
            examples,
            seed,
            timeout: Duration::from_secs(seconds),
        }),
        XtaskCommand::Conformance {
            binary,
            only,
            seconds,
        } => {
            let options = conformance::ConformanceOptions {
                binary,
                only,
                timeout: Duration::from_secs(seconds),
            };
            let passed = conformance::compare_clients(&options)?;
            let has_holders = options.only.is_empty();
            Ok(passed & (!has_holders || conformance::check_holders(options.binary.as_deref())?))
        }
        XtaskCommand::Sim { arguments } => sim::run_simulation(&arguments),
        XtaskCommand::Tidy { lower: true } => {
            tidy::lower_allowed(&tidy::project_root()).map(|()| true)
        }
        XtaskCommand::Tidy { lower: false } => {
            let problems = tidy::check_tree(&tidy::project_root())?;
            problems.iter().for_each(|problem| println!("{problem}"));
            Ok(problems.is_empty())
        }
        XtaskCommand::CountLines { root } => {
            let root = root.unwrap_or_else(tidy::project_root);
            let lines = tidy::count_product_lines(&root)?;
            let print = |name: &str, count: usize| println!("{count:>7} {name}");
            lines.iter().for_each(|(name, count)| print(name, *count));
            print("all", lines.values().sum());
            Ok(true)
        }
        XtaskCommand::Baseline { command } => block_on(run_baseline(command)),
        XtaskCommand::Model {
            deep,
            scenario,
            schedules,
        } => seqsvr_model::run_checks(&seqsvr_model::Options {
            deep,
            scenario,
            schedules,
        }),
    }
}

fn block_on(chore: impl Future<Output = Result<bool, String>>) -> Result<bool, String> {
    let runtime = tokio::runtime::Runtime::new();
    runtime
        .map_err(|error| format!("cannot start a runtime: {error}"))?
        .block_on(chore)
}

async fn run_baseline(command: BaselineCommand) -> Result<bool, String> {
    let served = match command {
        BaselineCommand::Grpc { listen } => baseline::serve_grpc(listen).await,
        BaselineCommand::Resp { listen } => baseline::serve_resp(listen).await,
        BaselineCommand::Http { listen } => baseline::serve_http(listen).await,
        BaselineCommand::Load(load) => {
            let rate = baseline::run_load(load).await;
            println!("{:.1}", rate.map_err(|error| error.to_string())?);
            Ok(())
        }
    };
    served.map(|()| true).map_err(|error| error.to_string())
}
