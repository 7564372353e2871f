//! Results on stdout. A reader that has seen enough (`| head`) ends the command quietly.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints one result line.
pub(crate) fn line(text: impl Display) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{text}")
}

/// Whether a command failed only because nobody reads its results any more.
pub(crate) fn reader_left(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}
