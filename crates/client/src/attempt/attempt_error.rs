//! Failure of one attempt.

use std::time::Duration;

use seqsvr_net::{TokenNotSent, find_cause, has_no_frames, is_refused};
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::{RpcError, cluster_mismatch_error, code_for_reason, local_cause};
use seqsvr_proto::limits::ALLOC_PORT;
use seqsvr_proto::v1::{ItemError, Reason};
use tonic::{Code, Status, TimeoutExpired};

use crate::attempt::retry_decision::RetryDecision;

/// Reason why one attempt failed.
#[derive(Clone, Debug)]
pub(crate) struct AttemptError {
    pub(crate) code: Code,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) decision: RetryDecision,
    /// The table now routes the key to another server: retry without a pause.
    pub(crate) rerouted: bool,
    /// There was no answer: the connection failed or the server did not respond.
    pub(crate) unanswered: bool,
    /// The server and this process do not accept each other: another server may.
    pub(crate) refused: bool,
    /// There was no answer, and nothing says why: an earlier failure may say more.
    pub(crate) unexplained: bool,
    /// Address of the server to call instead, if the server named one: with NOT_LEADER that of the
    /// leading StoreSvr, else that of an AllocSvr.
    pub(crate) redirect: Option<String>,
    /// With FLOOR_AHEAD, epoch of the slot that a store has confirmed; 0: none was named.
    pub(crate) confirmed_epoch: u64,
    /// With FLOOR_AHEAD, epoch that the request named; 0: none.
    pub(crate) requested_epoch: u64,
}

impl AttemptError {
    pub(crate) fn new(reason: Reason, decision: RetryDecision, message: String) -> AttemptError {
        AttemptError {
            code: code_for_reason(reason),
            reason,
            message,
            decision,
            rerouted: false,
            unanswered: false,
            refused: false,
            unexplained: false,
            redirect: None,
            confirmed_epoch: 0,
            requested_epoch: 0,
        }
    }

    /// Returns the failure of a pipe that ended without a reason.
    pub(crate) fn pipe_lost(address: &str) -> AttemptError {
        AttemptError {
            unexplained: true,
            ..AttemptError::unreachable(address, "the pipe ended without a reason")
        }
    }

    /// Returns the failure of an address at which nothing listens, or whose connection broke.
    pub(crate) fn unreachable(address: &str, why: &str) -> AttemptError {
        AttemptError {
            unanswered: true,
            ..AttemptError::new(
                Reason::Unreachable,
                RetryDecision::Retry,
                format!("no server reachable at {address}: {why}"),
            )
        }
    }

    /// Returns the failure of a connection whose ends do not accept each other.
    fn refused(address: &str, why: &str) -> AttemptError {
        AttemptError {
            refused: true,
            ..AttemptError::new(
                Reason::Unreachable,
                RetryDecision::Stop,
                format!("no connection to {address}: {why}"),
            )
        }
    }

    /// Returns the failure of an attempt that did not begin, because it could not show the token of
    /// the client. A file that is being replaced may be whole at the next attempt.
    pub(crate) fn unauthorized(address: &str, why: &TokenNotSent) -> AttemptError {
        match why {
            TokenNotSent::Plaintext(_) => AttemptError::refused(address, &why.to_string()),
            TokenNotSent::File(_) => AttemptError::new(
                Reason::Unauthenticated,
                RetryDecision::Retry,
                why.to_string(),
            ),
        }
    }

    /// Returns the failure of an attempt without an answer in its time.
    pub(crate) fn timed_out(address: &str, time: Duration) -> AttemptError {
        AttemptError {
            unanswered: true,
            unexplained: true,
            ..AttemptError::new(
                Reason::Unreachable,
                RetryDecision::Retry,
                format!("no answer from {address} within {time:.1?}"),
            )
        }
    }

    /// Returns the failure of a server of another cluster: its answers must not be used. Other
    /// servers may belong to the client's cluster.
    pub(crate) fn foreign_cluster(
        address: &str,
        server: ClusterTag,
        client: ClusterTag,
    ) -> AttemptError {
        let fault = cluster_mismatch_error(server, client);
        AttemptError::new(
            fault.reason(),
            RetryDecision::Retry,
            format!("{fault} (from {address})"),
        )
    }

    /// Returns this failure for the case that `foreign` of `all` servers belong to another cluster
    /// and the others do not respond. If all do, a retry would not help.
    ///
    /// Schedule that the reason is for: a client outlives its cluster, and its table names an
    /// AllocSvr that is gone. The silence of that one would hide the answers of all others.
    pub(crate) fn with_foreign_count(&self, foreign: usize, all: usize) -> AttemptError {
        let (servers, decision) = match foreign == all {
            true => (String::from("every server belongs"), RetryDecision::Stop),
            false => (format!("{foreign} of {all} servers belong"), self.decision),
        };
        let advice = match self.reason {
            Reason::ClusterMismatch => "",
            _ => "; create a new client if the cluster was created again or restored from a backup",
        };
        AttemptError {
            code: code_for_reason(Reason::ClusterMismatch),
            reason: Reason::ClusterMismatch,
            message: format!("{servers} to another cluster; {}{advice}", self.message),
            decision,
            unexplained: false,
            ..self.clone()
        }
    }

    /// Returns the failure of a reply that breaks the contract. Its numbers must not be used, and a
    /// retry at a server that is broken or of another version would not help.
    pub(crate) fn malformed_reply(address: &str, what: &str) -> AttemptError {
        AttemptError {
            code: Code::Internal,
            ..AttemptError::new(
                Reason::Unspecified,
                RetryDecision::Stop,
                format!(
                    "malformed reply from {address}: {what}; client and server versions are incompatible"
                ),
            )
        }
    }

    /// Returns the failure of an address whose answers are no frames of HTTP/2.
    fn other_protocol(address: &str) -> AttemptError {
        AttemptError {
            code: Code::Unimplemented,
            ..AttemptError::new(
                Reason::Unspecified,
                RetryDecision::Stop,
                format!(
                    "{address} does not speak gRPC: it may be the port for HTTP or for Redis clients; give the address of `--listen` of an AllocSvr, port {ALLOC_PORT} by default"
                ),
            )
        }
    }

    /// Reads a gRPC status: an answer of the server, or a failure of the connection.
    pub(crate) fn from_status(address: &str, status: &Status, time: Duration) -> AttemptError {
        let fault = RpcError::from_status(status);
        let reason = fault.reason();
        let cause = local_cause(status);
        if has_no_frames(status) {
            return AttemptError::other_protocol(address);
        }
        let is_timeout = match status.code() {
            Code::DeadlineExceeded => true,
            // Requests that a lost connection has not sent yet are canceled too.
            Code::Cancelled => cause.is_none() || find_cause::<TimeoutExpired>(status).is_some(),
            _ => false,
        };
        if reason == Reason::Unspecified && is_timeout {
            return AttemptError {
                unanswered: cause.is_some(),
                ..AttemptError::timed_out(address, time)
            };
        }
        if let Some(cause) = cause {
            if is_refused(status) {
                return AttemptError::refused(address, &cause);
            }
            return AttemptError {
                unexplained: status.code() == Code::Cancelled,
                ..AttemptError::unreachable(address, &cause)
            };
        }
        let text = match fault.message.as_str() {
            "" => format!(
                "status {:?} without a text: no server of this version answers so; check the address, or upgrade the server",
                fault.code
            ),
            text => text.to_owned(),
        };
        let hint = Duration::from_millis(u64::from(fault.detail.retry_after_ms));
        let redirect = Some(fault.detail.leader.clone()).filter(|named| !named.is_empty());
        AttemptError {
            code: fault.code,
            redirect,
            confirmed_epoch: fault.detail.confirmed_epoch,
            requested_epoch: fault.detail.requested_epoch,
            ..AttemptError::new(
                reason,
                RetryDecision::new(fault.code, reason, hint),
                format!("{text} (from {address})"),
            )
        }
    }

    /// Reads the error of one item of a batch.
    pub(crate) fn from_item_error(address: &str, item: &ItemError) -> AttemptError {
        let code = Code::from_i32(item.code);
        let hint = Duration::from_millis(u64::from(item.retry_after_ms));
        AttemptError {
            code,
            confirmed_epoch: item.confirmed_epoch,
            requested_epoch: item.requested_epoch,
            ..AttemptError::new(
                item.reason(),
                RetryDecision::new(code, item.reason(), hint),
                format!("{} (from {address})", item.message),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_decision_follows_code_reason_and_hint() {
        let decision = |fault: RpcError| {
            let time = Duration::from_secs(1);
            AttemptError::from_status("a:1", &Status::from(fault), time).decision
        };
        for reason in [
            Reason::NotOwner,
            Reason::NoLease,
            Reason::StaleEpoch,
            Reason::WindowExhausted,
        ] {
            assert_eq!(decision(RpcError::new(reason, "")), RetryDecision::Retry);
        }
        for reason in [
            Reason::Invalid,
            Reason::NamespaceNotFound,
            Reason::SequenceExhausted,
            Reason::FloorAhead,
            Reason::Rejected,
            Reason::LimitExceeded,
            Reason::Overloaded,
        ] {
            assert_eq!(decision(RpcError::new(reason, "")), RetryDecision::Stop);
        }
        assert_eq!(
            decision(RpcError::new(Reason::Overloaded, "").with_retry_after_ms(20)),
            RetryDecision::RetryAfter(Duration::from_millis(20))
        );
        let unimplemented = RpcError::new(Reason::Unspecified, "").with_code(Code::Unimplemented);
        assert_eq!(decision(unimplemented), RetryDecision::Stop);
    }
}
