//! `cargo xtask`: the project's chores on the command line. Results go to stdout; the exit code
//! says whether all came out as it must.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, value_parser};
use xtask::accept;
use xtask::model::run;

#[derive(Parser)]
#[command(about = "Chores of the project", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run every scenario on the release binary; one table at the end
    ///
    /// Builds the release binary, starts whole clusters of it on loopback, breaks or operates them
    /// under load, one scenario after the other, and checks every call made. Run it on a machine
    /// that does nothing else. What happens goes to stderr; the table goes to stdout: scenario,
    /// calls answered, calls answered inside the event, failed calls, longest call, time, and
    /// `passed`, or `FAILED` with the beginning of why. Exits 1 if any failed.
    Accept {
        /// Only this scenario; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Run each this many times
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        rounds: u32,
        /// Instead of the scenarios: mixed load for so many minutes (5 for everyday, 60 before a
        /// release), during which memory, disk, threads and descriptors must stay flat
        #[arg(long, value_name = "MINUTES", conflicts_with_all = ["only", "rounds"], value_parser = value_parser!(u64).range(1..=1_440))]
        soak: Option<u64>,
        /// Show that strict mode alone suffices: on a build without lease checks, a deposed
        /// owner must be convicted when nothing is strict, and every scenario must pass when all is
        #[arg(long, conflicts_with = "soak")]
        unleased: bool,
        /// Print the scenarios and run none
        #[arg(long)]
        list: bool,
    },
    /// Check the protocol's model: as designed, and without each of its rules
    Model {
        /// Larger bounds for the protocol as designed (minutes, and some GB of memory)
        #[arg(long)]
        deep: bool,
        /// Only this scenario
        #[arg(long, value_name = "NAME")]
        scenario: Option<String>,
        /// Print the schedule of each counterexample
        #[arg(long)]
        schedules: bool,
    },
}

fn main() -> ExitCode {
    let fine = match Cli::parse().command {
        Command::Accept { list: true, .. } => {
            print!("{}", accept::list());
            Ok(true)
        }
        Command::Accept {
            soak: Some(minutes),
            ..
        } => Ok(accept::soak(Duration::from_secs(60 * minutes))),
        Command::Accept {
            only,
            rounds,
            unleased,
            ..
        } => {
            let options = accept::Options { only, rounds };
            match unleased {
                true => accept::unleased(&options),
                false => accept::run(&options),
            }
        }
        Command::Model {
            deep,
            scenario,
            schedules,
        } => model(run::Options {
            deep,
            scenario,
            schedules,
        }),
    };
    match fine {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(mistake) => {
            eprintln!("{}", mistake.trim_end());
            ExitCode::from(2)
        }
    }
}

fn model(options: run::Options) -> Result<bool, String> {
    let unknown = |name: &&str| run::scenario(name).is_none();
    if let Some(name) = options.scenario.as_deref().filter(unknown) {
        return Err(format!(
            "no scenario is named {name}; docs/model.md lists them"
        ));
    }
    Ok(run::run(&options))
}
