//! The error a call ends with: what happened, what was tried, what to do.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use seqsvr_proto::v1::Reason;
use tonic::Code;

/// Why a call failed; its [`Details`] are its fields.
#[derive(Clone, Debug)]
pub struct Error(Box<Details>);

/// The fields of an [`Error`]. They are apart, so that results are small.
#[derive(Clone, Debug)]
pub struct Details {
    /// Canonical gRPC code; DEADLINE_EXCEEDED if the time ran out during the tries.
    pub code: Code,
    /// Machine-readable cause: that of the last try, if the time ran out.
    pub reason: Reason,
    /// What happened, in the last try if there were several, and what to do.
    pub message: String,
    /// Number of requests sent for this call.
    pub tries: u32,
    /// Addresses tried, each once, at most 16.
    pub tried_addresses: Vec<String>,
    /// Time that the call tried, if it ended because its time ran out.
    pub gave_up_after: Option<Duration>,
}

/// Most addresses that an error names.
pub(crate) const ERROR_ADDRESSES_MAX: usize = 16;

impl Error {
    /// Returns the error of a mistake of the caller, found before anything was sent.
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, Reason::Invalid, message)
    }

    /// Returns the error of a call that does not retry.
    pub(crate) fn new(code: Code, reason: Reason, message: impl Into<String>) -> Error {
        Error::from(Details {
            code,
            reason,
            message: message.into(),
            tries: 0,
            tried_addresses: Vec::new(),
            gave_up_after: None,
        })
    }
}

impl From<Details> for Error {
    fn from(details: Details) -> Error {
        Error(Box::new(details))
    }
}

impl Deref for Error {
    type Target = Details;

    fn deref(&self) -> &Details {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tries = |f: &mut fmt::Formatter<'_>| {
            let plural = if self.tries == 1 { "try" } else { "tries" };
            write!(f, "{} {plural}", self.tries)?;
            match self.tried_addresses.as_slice() {
                [] => Ok(()),
                asked => write!(f, " at {}", asked.join(", ")),
            }
        };
        let Some(after) = self.gave_up_after else {
            f.write_str(&self.message)?;
            if self.tries > 1 {
                f.write_str(" (")?;
                tries(f)?;
                f.write_str(")")?;
            }
            return Ok(());
        };
        write!(f, "gave up after {after:.1?} (")?;
        tries(f)?;
        write!(f, "); last: {}", self.message)?;
        match self.reason {
            Reason::Unreachable => f.write_str(
                "; check that an AllocSvr runs and that its address is right, or allow more time",
            ),
            // The message has its own advice.
            Reason::ClusterMismatch => Ok(()),
            _ => f.write_str("; call again, or allow more time"),
        }
    }
}

impl std::error::Error for Error {}
