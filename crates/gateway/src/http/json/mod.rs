//! The JSON API: `/v1/next`, `/v1/next-many`, `/v1/current`, `/v1/current-many`, `/v1/raise-to`.
//!
//! `GET` has its fields in the query, `POST` in a body of JSON or of a form. `/v1/raise-to` takes
//! `POST` only. `openapi.json` describes the fields and the answers.

mod fast_path;
mod fields;
#[cfg(fuzzing)]
mod fuzz;
mod request;
mod response;

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, head, post};
use seqsvr_proto::limits::MESSAGE_BYTES_MAX;
use seqsvr_proto::v1::sequence_server::Sequence;
use tokio::runtime::Handle;
use tonic::{Code, Status};

use request::{ApiRequest, ResponseOptions};
use response::ApiResponse;

pub(super) use fast_path::try_fast;
pub(super) use fields::NumberFormat;
#[cfg(fuzzing)]
pub(super) use fuzz::fuzz_api_requests;
pub(super) use response::FormattedNumber;

use super::error::HttpError;
use super::memory_limit::{ANSWER_BYTES_ESTIMATE, MemoryLimit, MemoryReservation};
use super::response::{json_response, to_json_line, typed_response};
use super::{body, query};

const NEXT_PATH: &str = "/v1/next";
/// Maximum bytes of the body of a request of one key; a larger one is rejected.
const SINGLE_BODY_BYTES_MAX: usize = 16 << 10;
/// Bytes of a body from which on another runtime parses it and writes its answer. Each of the two
/// takes a millisecond.
const OFFLOAD_BYTES: usize = 16 << 10;
/// The description of the API, for people who read it or generate clients from it.
const OPENAPI_JSON: &str = include_str!("openapi.json");

/// The future of a call of the service.
type CallFuture<'a, R> =
    Pin<Box<dyn Future<Output = Result<tonic::Response<R>, Status>> + Send + 'a>>;

/// State of the handlers.
struct JsonApi<S> {
    sequence: Arc<S>,
    memory: MemoryLimit,
    /// Runtime that parses and writes large bodies. In the runtime of a connection, other
    /// connections would wait.
    runtime: Handle,
}

pub(super) fn json_routes<S: Sequence>(sequence: Arc<S>, memory: MemoryLimit) -> Router {
    let api = Arc::new(JsonApi {
        sequence,
        memory,
        runtime: Handle::current(),
    });
    let openapi = || async { typed_response(StatusCode::OK, "application/json", OPENAPI_JSON) };
    Router::new()
        .route(NEXT_PATH, get_or_post(handle_next::<S>))
        .route("/v1/next-many", get_or_post(handle_next_many::<S>))
        .route("/v1/current", get_or_post(handle_current::<S>))
        .route("/v1/current-many", get_or_post(handle_current_many::<S>))
        .route("/v1/raise-to", post_only(handle_raise_to::<S>))
        .route("/v1/openapi.json", get(openapi))
        .with_state(api)
}

/// Routes `GET` and `POST`, and rejects other methods. `HEAD` would take a number that no client
/// sees.
fn get_or_post<S: Sequence, H, T>(handler: H) -> MethodRouter<Arc<JsonApi<S>>>
where
    H: axum::handler::Handler<T, Arc<JsonApi<S>>> + Clone,
    T: 'static,
{
    let reject = |uri: Uri| async move { method_not_allowed(&uri, "GET, POST") };
    head(reject)
        .get(handler.clone())
        .post(handler)
        .fallback(reject)
}

/// Routes `POST`, and rejects other methods: a page of any site can make a browser send a `GET`.
fn post_only<S: Sequence, H, T>(handler: H) -> MethodRouter<Arc<JsonApi<S>>>
where
    H: axum::handler::Handler<T, Arc<JsonApi<S>>>,
    T: 'static,
{
    post(handler).fallback(|uri: Uri| async move { method_not_allowed(&uri, "POST") })
}

/// Returns the response to another method than these.
fn method_not_allowed(uri: &Uri, methods: &'static str) -> Response {
    let text = format!("method not allowed at {}; use {methods}", uri.path());
    let error = HttpError::with_status(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented, text);
    let mut response = error.into_response();
    // RFC 9110, 15.5.6: a 405 must name the methods that the path has.
    let methods = HeaderValue::from_static(methods);
    response.headers_mut().insert(ALLOW, methods);
    response
}

async fn handle_next<S: Sequence>(
    State(api): State<Arc<JsonApi<S>>>,
    request: Request<Body>,
) -> Result<Response, HttpError> {
    serve_single::<request::NextFields, _>(request, |call| api.sequence.next(call)).await
}

async fn handle_current<S: Sequence>(
    State(api): State<Arc<JsonApi<S>>>,
    request: Request<Body>,
) -> Result<Response, HttpError> {
    serve_single::<request::CurrentFields, _>(request, |call| api.sequence.current(call)).await
}

async fn handle_raise_to<S: Sequence>(
    State(api): State<Arc<JsonApi<S>>>,
    request: Request<Body>,
) -> Result<Response, HttpError> {
    serve_single::<request::RaiseToFields, _>(request, |call| api.sequence.raise_to(call)).await
}

async fn handle_next_many<S: Sequence>(
    State(api): State<Arc<JsonApi<S>>>,
    request: Request<Body>,
) -> Result<Response, HttpError> {
    serve_batch::<request::NextManyFields, _, S>(&api, request, |call| api.sequence.next_many(call))
        .await
}

async fn handle_current_many<S: Sequence>(
    State(api): State<Arc<JsonApi<S>>>,
    request: Request<Body>,
) -> Result<Response, HttpError> {
    let send = |call| api.sequence.current_many(call);
    serve_batch::<request::CurrentManyFields, _, S>(&api, request, send).await
}

async fn serve_single<'a, A: ApiRequest, R: ApiResponse>(
    request: Request<Body>,
    send: impl FnOnce(tonic::Request<A::Message>) -> CallFuture<'a, R>,
) -> Result<Response, HttpError> {
    let ParsedRequest { call, format, .. } =
        read_request::<A>(request, SINGLE_BODY_BYTES_MAX, None).await?;
    let answer = send(call).await?.into_inner();
    Ok(json_response(StatusCode::OK, &answer.into_json(format)))
}

async fn serve_batch<'a, A: ApiRequest, R: ApiResponse, S>(
    api: &JsonApi<S>,
    request: Request<Body>,
    send: impl FnOnce(tonic::Request<A::Message>) -> CallFuture<'a, R>,
) -> Result<Response, HttpError> {
    let mut reservation = api.memory.begin_request()?;
    let batch = Some((&mut reservation, &api.runtime));
    let ParsedRequest {
        call,
        format,
        body_bytes,
    } = read_request::<A>(request, MESSAGE_BYTES_MAX, batch).await?;
    let answer = send(call).await?.into_inner();
    let written = offload_if_large(&api.runtime, body_bytes, move || {
        to_json_line(&answer.into_json(format))
    });
    let answer = reservation.attach_to_answer(written.await?)?;
    Ok(typed_response(StatusCode::OK, "application/json", answer))
}

/// A request, parsed.
struct ParsedRequest<C> {
    call: tonic::Request<C>,
    /// Format of numbers in its answer.
    format: NumberFormat,
    /// Bytes of its body.
    body_bytes: usize,
}

/// Reads a request. A request of many keys (`batch`) reserves memory, and waits for it before it is
/// parsed.
async fn read_request<A: ApiRequest>(
    request: Request<Body>,
    body_bytes_max: usize,
    mut batch: Option<(&mut MemoryReservation, &Handle)>,
) -> Result<ParsedRequest<A::Message>, HttpError> {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or("");
    let body = match parts.method {
        Method::POST => {
            let reservation = batch.as_mut().map(|(reservation, _)| &mut **reservation);
            body::read_body(&parts.headers, body, body_bytes_max, reservation).await?
        }
        _ => bytes::Bytes::new(),
    };
    let (form, body_bytes) = (body::is_form(&parts), body.len());
    if let Some((reservation, _)) = &mut batch {
        reservation
            .reserve_complete(query.len() + body_bytes, ANSWER_BYTES_ESTIMATE)
            .await?;
    }
    let fields: A = match batch {
        _ if body.is_empty() => parse_query(query)?,
        None => parse_body(&body, form)?,
        Some((_, runtime)) => {
            offload_if_large(runtime, body_bytes, move || parse_body(&body, form)).await??
        }
    };
    let ResponseOptions {
        timeout_ms,
        mut format,
    } = fields.response_options();
    if body_bytes > 0 {
        // Parsed even if the body names a format: an unknown field of a query is always rejected.
        let query_format = parse_query::<request::FormatFields>(query)?.format.0;
        format = format.or(query_format);
    }
    let timeout = timeout_ms.map(body::parse_timeout).transpose()?;
    let mut call = body::service_request(
        &parts,
        fields.into_message().map_err(HttpError::unprocessable)?,
    );
    if let Some(timeout) = timeout {
        call.set_timeout(timeout);
    }
    Ok(ParsedRequest {
        call,
        format: format.unwrap_or_default(),
        body_bytes,
    })
}

/// Parses the fields of a body, JSON or a form.
fn parse_body<A: ApiRequest>(body: &[u8], form: bool) -> Result<A, HttpError> {
    if body.trim_ascii_start().starts_with(b"{") {
        let mut text = serde_json::Deserializer::from_slice(body);
        let fields = serde_path_to_error::deserialize(&mut text)
            .map_err(|error| HttpError::invalid(error.to_string()))?;
        let end = text.end();
        end.map_err(|error| HttpError::invalid(error.to_string()))?;
        Ok(fields)
    } else if form {
        parse_query(str::from_utf8(body).map_err(|_| HttpError::invalid("the form is not UTF-8"))?)
    } else {
        let text = "the body is neither an object of JSON nor a form: see /v1/openapi.json";
        Err(HttpError::invalid(text))
    }
}

/// Does work for a request of `body_bytes` bytes: in another runtime if the request is large.
async fn offload_if_large<T: Send + 'static>(
    runtime: &Handle,
    body_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, HttpError> {
    if body_bytes < OFFLOAD_BYTES {
        return Ok(work());
    }
    let done = runtime.spawn(async move { work() }).await;
    // The task fails if the process ends.
    done.map_err(|error| Status::internal(error.to_string()).into())
}

fn parse_query<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, HttpError> {
    query::parse_fields(text).map_err(|error| HttpError::invalid(error.to_string()))
}
