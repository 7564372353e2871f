//! Arrival of a request, and the context that all its items share.

use std::time::Duration;

use seqsvr_access::Caller;
use seqsvr_net::ConnectionQuota;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::CALL_TIMEOUT_DEFAULT;
use seqsvr_proto::trace_context::TraceContext;
use seqsvr_proto::v1::Reason;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Extensions, Request, Status};

/// Context that all items of one request share.
pub(crate) struct RequestContext {
    /// As the caller wrote it; may be empty.
    pub(crate) namespace: String,
    /// Time at which the answer must be on its way.
    pub(crate) deadline: Instant,
    /// Whether another AllocSvr forwarded it; it is not forwarded again.
    pub(crate) forwarded: bool,
    /// Cluster that the caller names.
    pub(crate) cluster: ClusterTag,
    /// Version of the caller's table; 0: it has none.
    pub(crate) table_version: u64,
    /// Whether it is answered only with what a store has confirmed since (DESIGN 5.9).
    pub(crate) strict: bool,
    /// Share of the connection by which it came.
    pub(crate) share: Option<ConnectionQuota>,
    /// Trace that is passed to the AllocSvr to which it is forwarded.
    pub(crate) trace: Option<TraceContext>,
    /// Permits to open sections. A batch over thousands of sections must not delay the opens of
    /// other requests behind all of its own.
    pub(crate) opens: Semaphore,
}

/// Returns who makes a call, whom the layer of calls or an endpoint has judged.
///
/// # Errors
/// UNAUTHENTICATED: no one has. Such a call must not be served as that of a caller who may do
/// everything.
pub(crate) fn judged_caller(extensions: &Extensions) -> Result<&Caller, Status> {
    extensions.get::<Caller>().ok_or_else(|| {
        let text = "the caller of this request is not known";
        RpcError::new(Reason::Unauthenticated, text).into()
    })
}

/// Returns whether another AllocSvr forwarded a request that says so. Only AllocSvrs forward.
pub(crate) fn is_forwarded(says_so: bool, caller: &Caller) -> bool {
    says_so && caller.may_forward()
}

/// Returns a caller that may do everything.
#[cfg(test)]
pub(crate) fn local_operator() -> Caller {
    let remote = std::net::Ipv4Addr::LOCALHOST.into();
    let shown = seqsvr_access::Credentials::Plaintext(remote);
    seqsvr_access::Access::by_role().judge(shown).unwrap()
}

/// Maximum sections that one request opens at a time; above it the request's other opens wait.
pub(crate) const OPENS_PER_REQUEST_MAX: usize = 32;

/// Maximum time of a call. A longer deadline of the caller is shortened to it.
const CALL_DEADLINE_MAX: Duration = Duration::from_secs(60);

/// Time, deadline, origin and caller of a request.
pub(crate) struct RequestArrival {
    pub(crate) received_at: Instant,
    pub(crate) deadline: Instant,
    pub(crate) share: Option<ConnectionQuota>,
    pub(crate) trace: Option<TraceContext>,
    pub(crate) caller: Caller,
}

impl RequestArrival {
    /// Splits a request into its arrival and its message.
    ///
    /// # Errors
    /// Its caller is not known.
    pub(crate) fn split<T>(request: Request<T>) -> Result<(RequestArrival, T), Status> {
        let received_at = Instant::now();
        let arrival = RequestArrival {
            caller: judged_caller(request.extensions())?.clone(),
            received_at,
            deadline: requested_deadline(received_at, request.metadata()),
            share: request.extensions().get::<ConnectionQuota>().cloned(),
            trace: TraceContext::extract(request.metadata()),
        };
        Ok((arrival, request.into_inner()))
    }

    /// Returns the arrival of a request from within this process.
    pub(crate) fn local(caller: &Caller, share: &ConnectionQuota) -> RequestArrival {
        let received_at = Instant::now();
        RequestArrival {
            received_at,
            deadline: response_deadline(received_at, CALL_TIMEOUT_DEFAULT),
            share: Some(share.clone()),
            trace: None,
            caller: caller.clone(),
        }
    }

    /// Returns the context of its items.
    pub(crate) fn into_context(
        self,
        namespace: String,
        cluster: ClusterTag,
        table_version: u64,
        forwarded: bool,
        strict: bool,
    ) -> RequestContext {
        RequestContext {
            namespace,
            cluster,
            deadline: self.deadline,
            forwarded: is_forwarded(forwarded, &self.caller),
            table_version,
            strict,
            share: self.share,
            trace: self.trace,
            opens: Semaphore::new(OPENS_PER_REQUEST_MAX),
        }
    }
}

/// Returns when the answer must be on its way: shortly before the caller's own deadline.
pub(crate) fn requested_deadline(received_at: Instant, metadata: &MetadataMap) -> Instant {
    let timeout = metadata
        .get("grpc-timeout")
        .and_then(|v| v.to_str().ok())
        .and_then(parse_grpc_timeout);
    response_deadline(received_at, timeout.unwrap_or(CALL_TIMEOUT_DEFAULT))
}

/// Returns when the answer must be on its way to a caller with this timeout.
pub(crate) fn response_deadline(received_at: Instant, timeout: Duration) -> Instant {
    let total = timeout.min(CALL_DEADLINE_MAX);
    received_at + total - (total / 10).min(Duration::from_millis(50))
}

/// Parses `grpc-timeout`: up to 8 digits and a unit.
fn parse_grpc_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let n: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(n * 3600)),
        "M" => Some(Duration::from_secs(n * 60)),
        "S" => Some(Duration::from_secs(n)),
        "m" => Some(Duration::from_millis(n)),
        "u" => Some(Duration::from_micros(n)),
        "n" => Some(Duration::from_nanos(n)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeout_is_parsed() {
        assert_eq!(parse_grpc_timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(parse_grpc_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(
            parse_grpc_timeout("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        for bad in ["", "S", "5", "-5S", "123456789S", "5x", "é"] {
            assert_eq!(parse_grpc_timeout(bad), None, "{bad}");
        }
    }
}
