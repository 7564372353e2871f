//! A load generator that verifies the numbers that it receives.
//!
//! Data flow: a `CallWorker` waits until its next call is due (`pace`), draws keys (`keys`) and
//! sends the call, through the SDK or as a `unary` RPC. A `PipeWorker` does the same for all callers
//! of a connection, with frames of one Pipe. The `CallRecorder` verifies each range against all earlier
//! ones (`verify`) and adds the call to the `RunStats`. `ClusterCounters` are the counters of the
//! cluster during the run, and `report` prints the result.

pub(crate) mod answers;
pub(crate) mod caller;
pub(crate) mod checker;
pub(crate) mod effort;
pub(crate) mod figures;
mod holes;
pub(crate) mod keys;
pub(crate) mod pace;
pub(crate) mod piper;
pub(crate) mod plain;
pub(crate) mod report;
pub(crate) mod run_state;
pub(crate) mod runner;
pub(crate) mod settings;
mod unary;
pub(crate) mod verify;
