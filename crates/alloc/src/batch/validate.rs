//! What a request is made of, checked and turned into items before it is served.

use std::num::NonZeroU32;
use std::time::Duration;

use bytes::Bytes;
use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::namespace::NAME_MAX;
use seqsvr_core::route::KeyRef;
use seqsvr_proto::cluster_tag::ClusterTag;
use seqsvr_proto::error::Fault;
use seqsvr_proto::limits::DEADLINE_DEFAULT;
use seqsvr_proto::trace::Trace;
use seqsvr_proto::transport::Share;
use seqsvr_proto::v1::Reason;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status};

use crate::batch::item::{OPENS_PER_REQUEST_MAX, OwnedKey, RequestContext};

/// Longest a caller is kept waiting, whatever it asks for.
const CALL_DEADLINE_MAX: Duration = Duration::from_secs(60);

/// How a request came.
pub(crate) struct RequestArrival {
    pub(crate) received_at: Instant,
    pub(crate) deadline: Instant,
    pub(crate) share: Option<Share>,
    pub(crate) trace: Option<Trace>,
}

impl RequestArrival {
    /// Parts a request from how it came.
    pub(crate) fn split<T>(request: Request<T>) -> (RequestArrival, T) {
        let received_at = Instant::now();
        let arrival = RequestArrival {
            received_at,
            deadline: requested_deadline(received_at, request.metadata()),
            share: request.extensions().get::<Share>().cloned(),
            trace: Trace::of(request.metadata()),
        };
        (arrival, request.into_inner())
    }

    /// One that came within this process.
    pub(crate) fn local(share: &Share) -> RequestArrival {
        let received_at = Instant::now();
        RequestArrival {
            received_at,
            deadline: response_deadline(received_at, DEADLINE_DEFAULT),
            share: Some(share.clone()),
            trace: None,
        }
    }

    /// The circumstances of its items.
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
            forwarded,
            table_version,
            strict,
            share: self.share,
            trace: self.trace,
            opens: Semaphore::new(OPENS_PER_REQUEST_MAX),
        }
    }
}

/// A count within the contract's bounds. A namespace's own bound is checked with its window.
pub(crate) fn validate_count(count: u32) -> Result<NonZeroU32, Fault> {
    let max = COUNT_MAX;
    match NonZeroU32::new(count).filter(|c| c.get() <= max) {
        Some(count) => Ok(count),
        None => {
            let text = format!("count must be 1 to {max}, not {count}");
            Err(Fault::new(
                if count == 0 {
                    Reason::Invalid
                } else {
                    Reason::TooMany
                },
                text,
            )
            .with_code(Code::InvalidArgument))
        }
    }
}

/// When the answer must be under way: shortly before the caller's own deadline.
fn requested_deadline(received_at: Instant, metadata: &MetadataMap) -> Instant {
    let timeout = metadata
        .get("grpc-timeout")
        .and_then(|v| v.to_str().ok())
        .and_then(parse_grpc_timeout);
    response_deadline(received_at, timeout.unwrap_or(DEADLINE_DEFAULT))
}

/// When the answer must be under way to a caller that waits so long from then on.
pub(crate) fn response_deadline(received_at: Instant, timeout: Duration) -> Instant {
    let total = timeout.min(CALL_DEADLINE_MAX);
    received_at + total - (total / 10).min(Duration::from_millis(50))
}

/// Reads `grpc-timeout`: up to 8 digits and a unit.
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

/// A name that a namespace may have: an error would repeat it for every item.
pub(crate) fn validate_namespace_name(name: &str) -> Result<(), Fault> {
    if name.len() <= NAME_MAX {
        return Ok(());
    }
    let text = format!(
        "there is no namespace with a name of {} bytes: names have at most {NAME_MAX}",
        name.len()
    );
    Err(Fault::new(Reason::NoSuchNamespace, text))
}

/// The one key of a request, as it lies there.
pub(crate) fn require_key(key: Option<KeyRef<'_>>) -> Result<KeyRef<'_>, Fault> {
    let text = "the request names neither a uid nor a key";
    key.ok_or_else(|| Fault::new(Reason::Invalid, text))
}

/// The same, to be kept.
pub(crate) fn require_owned_key(key: Option<KeyRef<'_>>) -> Result<OwnedKey, Fault> {
    Ok(match require_key(key)? {
        KeyRef::Uid(uid) => OwnedKey::Uid(uid.0),
        KeyRef::Key(key) => OwnedKey::Key(Bytes::copy_from_slice(key)),
    })
}

/// A column is empty or has an entry for each item.
pub(crate) fn validate_column(name: &str, entries: usize, items: usize) -> Result<(), Fault> {
    if entries == 0 || entries == items {
        return Ok(());
    }
    let text = format!(
        "{name} has {entries} entries for {items} items; leave it empty or give one an item"
    );
    Err(Fault::new(Reason::Invalid, text))
}

pub(crate) fn invalid_status(text: String) -> Status {
    Fault::new(Reason::Invalid, text).into()
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
