//! Output of a process: results on stdout, the log on stderr, and the exit code.

pub(crate) mod exit_code;
mod field_format;
pub(crate) mod log;
pub(crate) mod stdout;
