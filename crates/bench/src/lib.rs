//! A load generator that verifies the numbers that it receives.
//!
//! Data flow: [`run_bench`] starts the workers (`runner`). A `CallWorker` waits until its next call
//! is due (`pacer`), draws keys (`key_set`) and sends the call, through the SDK or as a unary RPC.
//! A `PipeWorker` does the same for all callers of a connection, with frames of one Pipe
//! (`worker`). The `CallRecorder` verifies each range against all earlier ones (`verifier`) and
//! adds the call to the statistics (`stats`). `ClusterCounters` are the counters of the cluster
//! during the run, and a [`BenchReport`] has the result.
//!
//! This crate has no command line and prints nothing: `seqsvr bench` does.

mod answers;
mod call_recorder;
mod cluster_counters;
mod key_set;
mod pacer;
mod report;
mod run_state;
mod runner;
mod settings;
mod stats;
mod verifier;
mod worker;

pub use cluster_counters::ClusterCounters;
pub use report::BenchReport;
pub use runner::{ProgressPrinter, run_bench};
pub use settings::{BenchSettings, CallMode, InvalidSettings, KeyDistribution};
