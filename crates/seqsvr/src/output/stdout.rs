//! Results on stdout. A command ends without an error when the reader closes the pipe (`| head`).

use std::fmt::Display;
use std::io::{self, Write};

/// Prints one result line.
pub(crate) fn print_line(text: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Returns whether a command failed only because the reader of stdout closed the pipe.
pub(crate) fn is_closed_stdout(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
