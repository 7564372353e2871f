//! The fast path of `GET /v1/next`: numbers from memory, without a call of the service.

use axum::http::{Method, Request, StatusCode};
use axum::response::Response;
use seqsvr_access::Caller;
use seqsvr_net::LocalSequence;
use seqsvr_proto::convert::RequestKey;
use seqsvr_proto::trace_context::TRACEPARENT;

use super::request::{ApiRequest, NextFields, ResponseOptions};
use super::response::ApiResponse;
use crate::http::query;
use crate::http::response::json_response;

/// Answers a request from memory. None: nothing was done, and the router must answer the request.
pub(in crate::http) fn try_fast<B>(
    sequence: &impl LocalSequence,
    caller: &Caller,
    request: &Request<B>,
) -> Option<Response> {
    let uri = request.uri();
    // Only a call of the service can pass a trace on.
    if request.method() != Method::GET
        || uri.path() != super::NEXT_PATH
        || request.headers().contains_key(TRACEPARENT)
    {
        return None;
    }
    let fields: NextFields = query::parse_fields(uri.query()?).ok()?;
    let ResponseOptions {
        timeout_ms: None,
        format,
    } = fields.response_options()
    else {
        return None;
    };
    let message = fields.into_message().ok()?;
    if message.strict || message.floor.is_some() || message.epoch.is_some() {
        return None;
    }
    let numbers = sequence.try_next(
        caller,
        &message.namespace,
        message.key_ref()?,
        message.count.unwrap_or(1),
    )?;
    Some(json_response(
        StatusCode::OK,
        &numbers.into_json(format.unwrap_or_default()),
    ))
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use seqsvr_proto::v1::NextResponse;

    use super::*;
    use crate::test_util::{NoopSequence, local_operator};

    const LOADED_SEQUENCE: NoopSequence = NoopSequence(Some(NextResponse {
        first: 7,
        last: 8,
        epoch: 3,
        routes: None,
        cluster_tag: 0,
    }));

    #[tokio::test]
    async fn fast_path_answers_plain_gets_only() {
        let caller = local_operator();
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
            let response = try_fast(&LOADED_SEQUENCE, &caller, &request);
            assert!(try_fast(&NoopSequence::default(), &caller, &request).is_none());
            assert_eq!(response.is_some(), answer.is_some(), "{method} {target}");
            if let (Some(response), Some(answer)) = (response, answer) {
                let body = to_bytes(response.into_body(), 100).await.unwrap();
                assert_eq!(body, answer, "{method} {target}");
            }
        }
        let traced = Request::get("/v1/next?uid=1").header(TRACEPARENT, "00-01-02-00");
        assert!(
            try_fast(
                &LOADED_SEQUENCE,
                &caller,
                &traced.body(Body::empty()).unwrap()
            )
            .is_none()
        );
    }
}
