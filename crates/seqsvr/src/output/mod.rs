//! Output of a process: results on stdout, the log on stderr, and the exit code.

pub(crate) mod exit_code;
mod field_format;
mod line_queue;
pub(crate) mod log;
mod server_streams;
pub(crate) mod stdout;
