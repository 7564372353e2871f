//! The reason of a failed command, in the form of Redis.

use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::{ItemError, Reason};
use tonic::{Code, Status};

/// An error of one command.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    code: Code,
    reason: Reason,
    text: String,
    retry_after_ms: u32,
}

impl From<&Status> for Refusal {
    fn from(status: &Status) -> Refusal {
        let fault = Fault::from_status(status);
        Refusal {
            code: fault.code,
            reason: fault.reason(),
            retry_after_ms: fault.detail.retry_after_ms,
            text: fault.message,
        }
    }
}

impl From<&ItemError> for Refusal {
    fn from(error: &ItemError) -> Refusal {
        Refusal {
            code: Code::from_i32(error.code),
            reason: error.reason(),
            text: error.message.clone(),
            retry_after_ms: error.retry_after_ms,
        }
    }
}

impl Refusal {
    /// Returns the error of a SET to less than the current number.
    pub(super) fn below(now: u64, value: u64) -> Refusal {
        Refusal {
            code: Code::FailedPrecondition,
            reason: Reason::Unspecified,
            text: format!(
                "the number is {now} already, above {value}: numbers only rise, and nothing was changed"
            ),
            retry_after_ms: 0,
        }
    }

    /// Returns whether fewer numbers might have been given: the request was for more than the
    /// namespace gives at once, or than are left.
    pub(super) fn is_of_many(&self) -> bool {
        match self.reason {
            Reason::TooMany => self.code == Code::InvalidArgument,
            reason => reason == Reason::SequenceExhausted,
        }
    }

    /// Returns the answer: `TRYAGAIN` if the same command may succeed later, `ERR` if not. The
    /// error of a sequence at its end has the words that clients know from Redis.
    pub(super) fn line(&self) -> String {
        let Refusal {
            text,
            retry_after_ms: ms,
            ..
        } = self;
        let again = matches!(
            self.code,
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::ResourceExhausted
                | Code::Cancelled
                | Code::Aborted
        );
        match (again, self.reason, ms) {
            (_, Reason::SequenceExhausted, _) => {
                format!("ERR increment or decrement would overflow: {text}")
            }
            (true, _, 0) => format!("TRYAGAIN {text}"),
            (true, _, ms) => format!("TRYAGAIN {text}; come again in {ms} ms"),
            (false, ..) => format!("ERR {text}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_whether_to_come_again() {
        let of = |fault: Fault| Refusal::from(&Status::from(fault)).line();
        let later = Fault::new(Reason::TooMany, "full").with_retry_after_ms(50);
        assert_eq!(of(later), "TRYAGAIN full; come again in 50 ms");
        let lease = Fault::new(Reason::NoLease, "no lease");
        assert_eq!(of(lease), "TRYAGAIN no lease");
        let invalid = Fault::new(Reason::Invalid, "wrong");
        assert_eq!(of(invalid), "ERR wrong");
        let end = of(Fault::new(Reason::SequenceExhausted, "at its end"));
        assert!(end.contains("would overflow"), "{end}");
    }
}
