//! The error of a failed command, in the form of Redis.

use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{ItemError, Reason};
use tonic::{Code, Status};

/// An error of one command.
#[derive(Clone, Debug)]
pub(super) struct RedisError {
    code: Code,
    reason: Reason,
    text: String,
    retry_after_ms: u32,
}

impl From<Status> for RedisError {
    fn from(status: Status) -> RedisError {
        let fault = RpcError::from_status(&status);
        RedisError {
            code: fault.code,
            reason: fault.reason(),
            retry_after_ms: fault.detail.retry_after_ms,
            text: fault.message,
        }
    }
}

impl From<&ItemError> for RedisError {
    fn from(error: &ItemError) -> RedisError {
        RedisError {
            code: Code::from_i32(error.code),
            reason: error.reason(),
            text: error.message.clone(),
            retry_after_ms: error.retry_after_ms,
        }
    }
}

impl RedisError {
    /// Returns the error of a SET to less than the current number.
    pub(super) fn below_current(now: u64, value: u64) -> RedisError {
        RedisError {
            code: Code::FailedPrecondition,
            reason: Reason::Unspecified,
            text: format!(
                "the number is {now} already, above {value}: numbers only rise, and nothing was changed"
            ),
            retry_after_ms: 0,
        }
    }

    /// Returns the error of a raise of a key without a number. An AllocSvr that does not read
    /// `value_if_none` finds the value 0; its error is transient in a rolling upgrade.
    pub(super) fn of_raise_if_none(status: Status) -> RedisError {
        let error = RedisError::from(status);
        if error.reason != Reason::Invalid || !error.text.ends_with("2^63-1, not 0") {
            return error;
        }
        RedisError {
            code: Code::Unavailable,
            text: "an AllocSvr of an older version owns this key: it does not know SETNX; retry after its upgrade".to_owned(),
            ..error
        }
    }

    /// Returns whether a request for fewer numbers may succeed: the request was for more numbers
    /// than the namespace issues at once, or than are left.
    pub(super) fn may_succeed_with_fewer(&self) -> bool {
        match self.reason {
            Reason::LimitExceeded => self.code == Code::InvalidArgument,
            reason => reason == Reason::SequenceExhausted,
        }
    }

    /// Returns the text of the reply: `TRYAGAIN` if the same command may succeed later, `NOPERM` or
    /// `NOAUTH` if the caller may not send it, else `ERR`. The error of an exhausted sequence has
    /// the words of Redis, which clients compare.
    pub(super) fn to_reply_text(&self) -> String {
        let RedisError {
            text,
            retry_after_ms: ms,
            ..
        } = self;
        let is_transient = matches!(
            self.code,
            Code::Unavailable
                | Code::DeadlineExceeded
                | Code::ResourceExhausted
                | Code::Cancelled
                | Code::Aborted
        );
        match (is_transient, self.reason, ms) {
            (_, Reason::SequenceExhausted, _) => {
                format!("ERR increment or decrement would overflow: {text}")
            }
            (true, _, 0) => format!("TRYAGAIN {text}"),
            (true, _, ms) => format!("TRYAGAIN {text}; retry after {ms} ms"),
            (false, ..) => match self.code {
                Code::PermissionDenied => format!("NOPERM {text}"),
                Code::Unauthenticated => format!("NOAUTH {text}"),
                _ => format!("ERR {text}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_error_says_whether_to_retry() {
        let reply_text = |fault: RpcError| RedisError::from(Status::from(fault)).to_reply_text();
        let full = RpcError::new(Reason::Overloaded, "full").with_retry_after_ms(50);
        assert_eq!(reply_text(full), "TRYAGAIN full; retry after 50 ms");
        let lease = RpcError::new(Reason::NoLease, "no lease");
        assert_eq!(reply_text(lease), "TRYAGAIN no lease");
        let invalid = RpcError::new(Reason::Invalid, "wrong");
        assert_eq!(reply_text(invalid), "ERR wrong");
        let denied = RpcError::new(Reason::PermissionDenied, "no right");
        assert_eq!(reply_text(denied), "NOPERM no right");
        let unknown = RpcError::new(Reason::Unauthenticated, "no caller");
        assert_eq!(reply_text(unknown), "NOAUTH no caller");
        let wrong = RpcError::new(Reason::Invalid, "namespace is dense");
        let of_raise = RedisError::of_raise_if_none(wrong.into()).to_reply_text();
        assert_eq!(of_raise, "ERR namespace is dense");
        let end = reply_text(RpcError::new(Reason::SequenceExhausted, "at its end"));
        assert!(end.contains("would overflow"), "{end}");
    }
}
