//! Exit codes that scripts can trust: 0 done, 1 failed or refused, 2 bad input (clap's own code),
//! 3 nobody could be reached or it did not happen in time, so that trying again makes sense.

use std::process::ExitCode;

use seqsvr_client::{Code, Error};

use crate::log;

pub(crate) const FAILED: ExitCode = ExitCode::FAILURE;
pub(crate) const BAD_INPUT_CODE: u8 = 2;
pub(crate) const UNAVAILABLE_CODE: u8 = 3;

/// Bad input found before anything was asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct BadInput(pub(crate) String);

/// A server that cannot be reached, or not in time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(pub(crate) String);

/// Prints the last line and chooses the code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    log::last(format_args!("{error:#}"));
    ExitCode::from(code(error))
}

fn code(error: &anyhow::Error) -> u8 {
    if error.is::<BadInput>() {
        return BAD_INPUT_CODE;
    }
    if error.is::<Unavailable>() {
        return UNAVAILABLE_CODE;
    }
    match error.downcast_ref::<Error>().map(|e| e.code) {
        Some(Code::InvalidArgument | Code::NotFound | Code::OutOfRange) => BAD_INPUT_CODE,
        Some(Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted) => {
            UNAVAILABLE_CODE
        }
        _ => 1,
    }
}
