//! Trace that a call belongs to, as the caller sends it (W3C Trace Context, level 1). It is in the
//! metadata of gRPC and in the headers of HTTP. The server passes it on unchanged, and logs it with
//! the messages of the call.

use tonic::Request;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};

/// Name of the header.
pub const TRACEPARENT: &str = "traceparent";

/// Version, trace id, parent id and flags in hexadecimal, with hyphens between them.
const FIELD_LENGTHS: [usize; 4] = [2, 32, 16, 2];

/// A valid `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext(MetadataValue<Ascii>);

impl TraceContext {
    /// Returns the trace of a call; None: the call has none, or none that is valid.
    pub fn extract(metadata: &MetadataMap) -> Option<TraceContext> {
        let value = metadata.get(TRACEPARENT)?;
        is_valid_traceparent(value.to_str().ok()?).then(|| TraceContext(value.clone()))
    }

    /// Returns the trace in a header's text.
    pub fn parse(text: &str) -> Option<TraceContext> {
        let value = text.parse().ok().filter(|_| is_valid_traceparent(text))?;
        Some(TraceContext(value))
    }

    /// Returns the trace id: 32 hexadecimal digits.
    pub fn id(&self) -> &str {
        let text = self.0.to_str().unwrap_or_default();
        text.get(3..35).unwrap_or_default()
    }

    /// Adds the trace to a request.
    pub fn inject<T>(&self, request: &mut Request<T>) {
        request.metadata_mut().insert(TRACEPARENT, self.0.clone());
    }
}

fn is_valid_traceparent(text: &str) -> bool {
    let mut parts = text.split('-');
    let hex = |part: &str, length| {
        part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
    };
    let fit = FIELD_LENGTHS
        .iter()
        .all(|n| parts.next().is_some_and(|part| hex(part, *n)));
    // A later version may have more parts; ids of zeros alone are invalid.
    let known = !text.starts_with("ff") && (parts.next().is_none() || !text.starts_with("00"));
    let ids = text.split('-').skip(1).take(2);
    fit && known && ids.into_iter().all(|id| id.bytes().any(|b| b != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn trace_context_accepts_only_valid_headers() {
        assert_eq!(
            TraceContext::parse(GOOD).unwrap().id(),
            "4bf92f3577b34da6a3ce929d0e0e4736"
        );
        let later = format!("cc{}-more", &GOOD[2..]);
        assert!(TraceContext::parse(&later).is_some());
        for bad in [
            "",
            "00",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            &format!("{GOOD}-more"),
            &format!("ff{}", &GOOD[2..]),
            &format!("{GOOD}\r\nforged: 1"),
        ] {
            assert_eq!(TraceContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn trace_context_is_injected_unchanged() {
        let mut request = Request::new(());
        assert_eq!(TraceContext::extract(request.metadata()), None);
        let trace = TraceContext::parse(GOOD).unwrap();
        trace.inject(&mut request);
        assert_eq!(request.metadata().get(TRACEPARENT).unwrap(), GOOD);
        assert_eq!(TraceContext::extract(request.metadata()), Some(trace));
    }
}
