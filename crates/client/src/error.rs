//! The error with which a call ends: what happened, what was tried, what to do.

use std::fmt;
use std::time::Duration;

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::Reason;
use tonic::Code;

use crate::attempt::retry_decision::RetryDecision;

/// Reason why a call failed. The text says what happened and what to do; [`Error::kind`] is for
/// programs.
///
/// The client has already retried where that helps. Another call is always safe: a number that an
/// unanswered attempt may have taken is skipped, never given twice.
#[derive(Clone, Debug)]
pub struct Error(Box<ErrorDetails>);

/// Content of an [`Error`]. It is boxed, so that results are small.
#[derive(Clone, Debug)]
pub(crate) struct ErrorDetails {
    /// Canonical gRPC code of the last attempt.
    pub(crate) code: Code,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) attempts: u32,
    pub(crate) addresses: Vec<String>,
    pub(crate) gave_up_after: Option<Duration>,
    pub(crate) decision: RetryDecision,
    /// The last attempt had no answer.
    pub(crate) unanswered: bool,
}

/// Kind of the failure that an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The arguments are wrong: a key, a count, a name or a setting outside its limits.
    InvalidInput,
    /// The cluster has no such namespace.
    NamespaceNotFound,
    /// The cluster has no such family of ids.
    FamilyNotFound,
    /// The sequence has reached its last number, 2^63 - 1.
    SequenceExhausted,
    /// The floor is above every number that the cluster has given out.
    FloorAhead,
    /// The jump is larger than the namespace allows without force.
    RaiseAboveLimit,
    /// The cluster rejects the request in its present state; the text says why.
    Rejected,
    /// The caller may not do this: a server does not accept its certificate or token, or that has
    /// no right to it.
    NotPermitted,
    /// A server has too many requests, or one request is too large for it.
    Overloaded,
    /// No server was reachable, or none was able to answer.
    Unavailable,
    /// The servers belong to another cluster than the client: create a new client. Or the
    /// configured servers belong to different clusters: the text has that of each.
    ClusterMismatch,
    /// The answer breaks the contract, or a server failed: client and servers may have different
    /// versions.
    Internal,
}

impl ErrorKind {
    /// Returns the kind of a failure with this code and this reason.
    fn new(code: Code, reason: Reason) -> ErrorKind {
        match reason {
            Reason::NamespaceNotFound => return ErrorKind::NamespaceNotFound,
            Reason::FamilyNotFound => return ErrorKind::FamilyNotFound,
            Reason::SequenceExhausted => return ErrorKind::SequenceExhausted,
            Reason::FloorAhead => return ErrorKind::FloorAhead,
            Reason::JumpTooLarge => return ErrorKind::RaiseAboveLimit,
            Reason::ClusterMismatch => return ErrorKind::ClusterMismatch,
            // A section that holds no more keys: a server that is less busy rejects it as well.
            Reason::LimitExceeded if code == Code::ResourceExhausted => return ErrorKind::Rejected,
            _ if RetryDecision::new(code, reason, Duration::ZERO) == RetryDecision::Retry => {
                return ErrorKind::Unavailable;
            }
            _ => {}
        }
        match code {
            Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidInput,
            Code::ResourceExhausted => ErrorKind::Overloaded,
            Code::Unauthenticated | Code::PermissionDenied => ErrorKind::NotPermitted,
            Code::FailedPrecondition | Code::AlreadyExists | Code::NotFound => ErrorKind::Rejected,
            _ => ErrorKind::Internal,
        }
    }
}

/// Maximum addresses that an error names. Above it, further ones are left out.
pub(crate) const ERROR_ADDRESSES_MAX: usize = 16;

impl Error {
    /// Returns the error of a mistake of the caller, found before anything was sent.
    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(Code::InvalidArgument, Reason::Invalid, message)
    }

    /// Returns the error of a call that does not retry.
    pub(crate) fn new(code: Code, reason: Reason, message: impl Into<String>) -> Error {
        Error::from(ErrorDetails {
            code,
            reason,
            message: message.into(),
            attempts: 0,
            addresses: Vec::new(),
            gave_up_after: None,
            decision: RetryDecision::new(code, reason, Duration::ZERO),
            unanswered: false,
        })
    }

    /// Returns the kind of the failure: that of the last attempt, if there were several.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::new(self.0.code, self.0.reason)
    }

    /// Returns whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.0.decision != RetryDecision::Stop
    }

    /// Returns the time to wait before another call, if a server requested one. None for an error
    /// that is retryable: choose a pause, with some jitter.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.decision.retry_after()
    }

    /// Returns how many requests were sent for this call. 0: its arguments were rejected before the
    /// first one, or a stream that had begun was interrupted.
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// Returns the addresses to which requests were sent, each once, at most 16.
    pub fn addresses(&self) -> &[String] {
        &self.0.addresses
    }

    /// Returns how long the call tried, if it ended because its time ran out.
    pub fn gave_up_after(&self) -> Option<Duration> {
        self.0.gave_up_after
    }

    /// Returns the text of the last failure, without the attempts that [`fmt::Display`] adds.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Returns the canonical gRPC code: DEADLINE_EXCEEDED if the time of the call ran out.
    pub fn code(&self) -> Code {
        match self.0.gave_up_after {
            Some(_) => Code::DeadlineExceeded,
            None => self.0.code,
        }
    }

    /// Returns the reason in the words of the protocol, for logs. Programs use [`Error::kind`].
    pub fn reason(&self) -> Reason {
        self.0.reason
    }
}

impl From<ErrorDetails> for Error {
    fn from(details: ErrorDetails) -> Error {
        Error(Box::new(details))
    }
}

/// Makes the error of one answer that a program received without a [`Client`](crate::Client).
impl From<RpcError> for Error {
    fn from(answer: RpcError) -> Error {
        let hint = Duration::from_millis(u64::from(answer.detail.retry_after_ms));
        let reason = answer.reason();
        Error::from(ErrorDetails {
            code: answer.code,
            reason,
            message: answer.message,
            attempts: 1,
            addresses: Vec::new(),
            gave_up_after: None,
            decision: RetryDecision::new(answer.code, reason, hint),
            unanswered: false,
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &self.0;
        let attempts = |f: &mut fmt::Formatter<'_>| {
            let plural = if details.attempts == 1 { "" } else { "s" };
            write!(f, "{} attempt{plural}", details.attempts)?;
            match details.addresses.as_slice() {
                [] => Ok(()),
                addresses => write!(f, " at {}", addresses.join(", ")),
            }
        };
        let Some(after) = details.gave_up_after else {
            f.write_str(&details.message)?;
            if details.attempts > 1 {
                f.write_str(" (")?;
                attempts(f)?;
                f.write_str(")")?;
            }
            return Ok(());
        };
        write!(f, "gave up after {after:.1?} (")?;
        attempts(f)?;
        write!(f, "); last: {}", details.message)?;
        match details.reason {
            Reason::Unreachable if details.unanswered => f.write_str(
                "; check that the server runs and that its address is right, or allow more time",
            ),
            // The message of a server has its own advice.
            Reason::ClusterMismatch | Reason::Unreachable => Ok(()),
            _ => f.write_str("; call again, or allow more time"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_kind_follows_code_and_reason() {
        let kind = |reason| Error::from(RpcError::new(reason, "")).kind();
        for (reason, expected) in [
            (Reason::NotOwner, ErrorKind::Unavailable),
            (Reason::NotInitialized, ErrorKind::Unavailable),
            (Reason::ClusterMismatch, ErrorKind::ClusterMismatch),
            (Reason::Overloaded, ErrorKind::Overloaded),
            (Reason::Invalid, ErrorKind::InvalidInput),
            (Reason::Rejected, ErrorKind::Rejected),
            (Reason::NameTaken, ErrorKind::Rejected),
            (Reason::AddressTaken, ErrorKind::Rejected),
            (Reason::Unauthenticated, ErrorKind::NotPermitted),
            (Reason::PermissionDenied, ErrorKind::NotPermitted),
            (Reason::Unspecified, ErrorKind::Internal),
        ] {
            assert_eq!(kind(reason), expected, "{reason:?}");
        }
        let batch_limit = RpcError::new(Reason::LimitExceeded, "");
        let section_full = batch_limit.clone().with_code(Code::ResourceExhausted);
        assert_eq!(Error::from(batch_limit).kind(), ErrorKind::InvalidInput);
        assert_eq!(Error::from(section_full).kind(), ErrorKind::Rejected);
    }

    #[test]
    fn server_hint_is_visible_and_makes_error_retryable() {
        let full = Error::from(RpcError::new(Reason::Overloaded, "").with_retry_after_ms(20));
        assert!(full.is_retryable());
        assert_eq!(full.retry_after(), Some(Duration::from_millis(20)));
        let invalid = Error::invalid("count must be 1");
        assert!(!invalid.is_retryable() && invalid.retry_after().is_none());
    }
}
