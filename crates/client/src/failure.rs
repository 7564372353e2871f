//! One try's failure, judged once: final, or worth a retry.

use std::time::Duration;

use seqsvr_proto::cluster_tag::{ClusterTag, mismatch};
use seqsvr_proto::error::{Fault, code_of, local_cause};
use seqsvr_proto::v1::{ItemError, Reason};
use tonic::{Code, Status};

/// What a failure means for the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Another try would end the same way.
    Final,
    /// Retry.
    Retry,
    /// Retry, not earlier than this.
    After(Duration),
}

/// Why one try failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) reason: Reason,
    pub(crate) message: String,
    pub(crate) verdict: Verdict,
    /// The table now routes the key elsewhere than it was sent: worth a retry at once.
    pub(crate) rerouted: bool,
    /// The way to the server failed or the server was silent: there is no answer.
    pub(crate) unanswered: bool,
    /// Where the StoreSvr leader is, if a StoreSvr that does not lead named it.
    pub(crate) leader: Option<String>,
}

impl Failure {
    pub(crate) fn new(reason: Reason, verdict: Verdict, message: String) -> Failure {
        Failure {
            code: code_of(reason),
            reason,
            message,
            verdict,
            rerouted: false,
            unanswered: false,
            leader: None,
        }
    }

    /// Returns the failure of a pipe that ended without a reason.
    pub(crate) fn lost(address: &str) -> Failure {
        Failure::unreachable(address, "the pipe was lost")
    }

    /// Returns the failure of an address where nothing listens, or whose connection broke.
    pub(crate) fn unreachable(address: &str, why: &str) -> Failure {
        Failure {
            unanswered: true,
            ..Failure::new(
                Reason::Unreachable,
                Verdict::Retry,
                format!("no AllocSvr reachable at {address}: {why}"),
            )
        }
    }

    /// Returns the failure of a try without an answer in its time.
    pub(crate) fn silent(address: &str, time: Duration) -> Failure {
        Failure {
            unanswered: true,
            ..Failure::new(
                Reason::Unreachable,
                Verdict::Retry,
                format!("no answer from {address} within {time:.1?}"),
            )
        }
    }

    /// Returns the failure of a server of another cluster: its answers must not be used. Other
    /// servers may belong to the client's cluster.
    pub(crate) fn of_other_cluster(
        address: &str,
        server: ClusterTag,
        client: ClusterTag,
    ) -> Failure {
        let fault = mismatch(server, client);
        Failure::new(
            fault.reason(),
            Verdict::Retry,
            format!("{fault} (from {address})"),
        )
    }

    /// Returns this failure for the case that so many of all servers belong to another cluster and
    /// the others are silent. If all do, a retry would not help.
    ///
    /// Schedule that the reason is for: a client outlives its cluster, and its table names an
    /// AllocSvr that is gone. The silence of that one would hide the answers of all others.
    pub(crate) fn among_foreign(&self, foreign: usize, all: usize) -> Failure {
        let (servers, verdict) = match foreign == all {
            true => (String::from("every server belongs"), Verdict::Final),
            false => (format!("{foreign} of {all} servers belong"), self.verdict),
        };
        let advice = match self.reason {
            Reason::ClusterMismatch => "",
            _ => "; make a new client if the cluster was made again or restored from a backup",
        };
        Failure {
            code: code_of(Reason::ClusterMismatch),
            reason: Reason::ClusterMismatch,
            message: format!("{servers} to another cluster; {}{advice}", self.message),
            verdict,
            ..self.clone()
        }
    }

    /// Returns the failure of a reply that breaks the contract. Its numbers must not be used, and a
    /// retry at a server that is broken or of another version would not help.
    pub(crate) fn malformed(address: &str, what: &str) -> Failure {
        Failure {
            code: Code::Internal,
            ..Failure::new(
                Reason::Unspecified,
                Verdict::Final,
                format!(
                    "malformed reply from {address}: {what}; client and server do not fit together"
                ),
            )
        }
    }

    /// Reads a gRPC status: an answer, or what the connection made of its own failure.
    pub(crate) fn from_status(address: &str, status: &Status, time: Duration) -> Failure {
        let fault = Fault::from_status(status);
        let reason = fault.reason();
        let cause = local_cause(status);
        let silent = matches!(status.code(), Code::Cancelled | Code::DeadlineExceeded);
        if reason == Reason::Unspecified && silent {
            return Failure {
                unanswered: cause.is_some(),
                ..Failure::silent(address, time)
            };
        }
        if let Some(cause) = cause {
            return Failure::unreachable(address, &cause);
        }
        let hint = Duration::from_millis(u64::from(fault.detail.retry_after_ms));
        let leader = Some(fault.detail.leader.clone()).filter(|l| !l.is_empty());
        Failure {
            code: fault.code,
            leader,
            ..Failure::new(
                reason,
                judge(fault.code, reason, hint),
                format!("{} (from {address})", fault.message),
            )
        }
    }

    /// Reads the error of one item of a batch.
    pub(crate) fn from_item(address: &str, item: &ItemError) -> Failure {
        let code = Code::from_i32(item.code);
        let hint = Duration::from_millis(u64::from(item.retry_after_ms));
        Failure {
            code,
            ..Failure::new(
                item.reason(),
                judge(code, item.reason(), hint),
                format!("{} (from {address})", item.message),
            )
        }
    }
}

/// Judges whether a retry can help; it is always safe.
fn judge(code: Code, reason: Reason, hint: Duration) -> Verdict {
    let retry = if hint.is_zero() {
        Verdict::Retry
    } else {
        Verdict::After(hint)
    };
    match (code, reason) {
        (
            _,
            Reason::NotOwner
            | Reason::NoLease
            | Reason::NoWindow
            | Reason::StaleEpoch
            | Reason::NotLeader
            | Reason::NotInitialised
            | Reason::Unreachable
            | Reason::ClusterMismatch,
        ) => retry,
        (Code::Unavailable | Code::Aborted | Code::Cancelled | Code::DeadlineExceeded, _) => retry,
        (Code::ResourceExhausted, _) if !hint.is_zero() => retry,
        _ => Verdict::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judgement() {
        let verdict = |fault: Fault| {
            let time = Duration::from_secs(1);
            Failure::from_status("a:1", &Status::from(fault), time).verdict
        };
        for reason in [
            Reason::NotOwner,
            Reason::NoLease,
            Reason::StaleEpoch,
            Reason::NoWindow,
        ] {
            assert_eq!(verdict(Fault::new(reason, "")), Verdict::Retry);
        }
        for reason in [
            Reason::Invalid,
            Reason::NoSuchNamespace,
            Reason::SequenceExhausted,
            Reason::FloorUnknown,
            Reason::Refused,
            Reason::TooMany,
        ] {
            assert_eq!(verdict(Fault::new(reason, "")), Verdict::Final);
        }
        assert_eq!(
            verdict(Fault::new(Reason::TooMany, "").with_retry_after_ms(20)),
            Verdict::After(Duration::from_millis(20))
        );
        let unimplemented = Fault::new(Reason::Unspecified, "").with_code(Code::Unimplemented);
        assert_eq!(verdict(unimplemented), Verdict::Final);
    }
}
