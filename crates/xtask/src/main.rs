//! `cargo xtask`: the project's chores on the command line. Results go to stdout; the exit code
//! says whether all came out as it must.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::model::run;

#[derive(Parser)]
#[command(about = "Chores of the project", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
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
    match Cli::parse().command {
        Command::Model {
            deep,
            scenario,
            schedules,
        } => {
            if let Some(name) = scenario
                .as_deref()
                .filter(|name| run::scenario(name).is_none())
            {
                eprintln!("no scenario is named {name}; docs/model.md lists them");
                return ExitCode::from(2);
            }
            let fine = run::run(&run::Options {
                deep,
                scenario,
                schedules,
            });
            if fine {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
    }
}
