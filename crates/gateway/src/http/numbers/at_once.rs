//! Numbers from memory: the usual answer to `GET /v1/next`, without a call.

use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use seqsvr_proto::LocalSequence;
use seqsvr_proto::convert::Keyed;
use seqsvr_proto::trace::TRACEPARENT;

use super::answer::Answer;
use super::ask::{self, Ask};
use crate::http::answer::json;
use crate::http::query;

/// Answers a request from memory. None: nothing was done, and a call must find the answer.
pub(in crate::http) fn at_once<B>(
    sequence: &impl LocalSequence,
    request: &Request<B>,
) -> Option<Response> {
    let uri = request.uri();
    // A call carries its trace.
    if request.method() != Method::GET
        || uri.path() != super::NEXT
        || request.headers().contains_key(TRACEPARENT)
    {
        return None;
    }
    let asked: ask::Next = query::read(uri.query()?).ok()?;
    let (None, format) = asked.how() else {
        return None;
    };
    let call = asked.call().ok()?;
    if call.strict || call.floor.is_some() || call.epoch.is_some() {
        return None;
    }
    let taken = sequence.take(&call.namespace, call.key_ref()?, call.count.unwrap_or(1))?;
    Some(json(
        StatusCode::OK,
        &taken.json(format.unwrap_or_default()),
    ))
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use seqsvr_proto::v1::NextResponse;

    use super::*;
    use crate::nobody::Nobody;

    const MEMORY: Nobody = Nobody(Some(NextResponse {
        first: 7,
        last: 8,
        epoch: 3,
        routes: None,
        cluster_tag: 0,
    }));

    #[tokio::test]
    async fn plain_gets_are_answered_by_memory_and_all_else_by_a_call() {
        let number = "{\"first\":7,\"last\":8,\"epoch\":3}\n";
        let text = "{\"first\":\"7\",\"last\":\"8\",\"epoch\":\"3\"}\n";
        for (method, target, answer) in [
            ("GET", "/v1/next?uid=1", Some(number)),
            ("GET", "/v1/next?key=a%ff&count=2", Some(number)),
            ("GET", "/v1/next?key_base64=YQ==&namespace=n", Some(number)),
            ("GET", "/v1/next?uid=1&format=string", Some(text)),
            ("HEAD", "/v1/next?uid=1", None),
            ("POST", "/v1/next?uid=1", None),
            ("GET", "/v1/next", None),
            ("GET", "/v1/current?uid=1", None),
            ("GET", "/v1/next?uid=1&key=a", None),
            ("GET", "/v1/next?uid=-1", None),
            ("GET", "/v1/next?uid=1&other=1", None),
            ("GET", "/v1/next?uid=1&timeout_ms=0", None),
            ("GET", "/v1/next?uid=1&floor=9", None),
            ("GET", "/v1/next?uid=1&epoch=4", None),
            ("GET", "/v1/next?uid=1&strict", None),
        ] {
            let request = Request::builder().method(method).uri(target);
            let request = request.body(Body::empty()).unwrap();
            let response = at_once(&MEMORY, &request);
            assert!(at_once(&Nobody::default(), &request).is_none());
            assert_eq!(response.is_some(), answer.is_some(), "{method} {target}");
            if let (Some(response), Some(answer)) = (response, answer) {
                let body = to_bytes(response.into_body(), 100).await.unwrap();
                assert_eq!(body, answer, "{method} {target}");
            }
        }
        let traced = Request::get("/v1/next?uid=1").header(TRACEPARENT, "00-01-02-00");
        assert!(at_once(&MEMORY, &traced.body(Body::empty()).unwrap()).is_none());
    }
}
