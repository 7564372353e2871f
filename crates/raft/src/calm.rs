//! sled's failures as ordinary errors, in the operating system's words.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call of sled whose panic is an error like its others: a panic in openraft's task would leave a
/// node that goes on acknowledging and never applies again.
pub(crate) fn calm<T>(call: impl FnOnce() -> sled::Result<T>) -> io::Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(e))) => Err(plain(e)),
        Ok(Err(e)) => Err(io::Error::other(e)),
        Err(_) => Err(io::Error::other("sled panicked")),
    }
}

/// The operating system's error itself: sled hands on copies that have only its `Debug` text.
pub(crate) fn plain(error: io::Error) -> io::Error {
    let text = error.to_string();
    let code = text.split_once("code: ").map(|(_, rest)| rest);
    let code = code.and_then(|c| c.split(',').next()?.parse().ok());
    code.map_or(error, io::Error::from_raw_os_error)
}
