//! Numbers as JSON: `/v1/next`, `/v1/next-many`, `/v1/current`, `/v1/current-many`, `/v1/raise-to`.
//!
//! `GET` has its fields in the query, `POST` in a body of JSON or of a form. `openapi.json`
//! describes the fields and the answers.

mod answer;
mod ask;
mod at_once;
mod field;
#[cfg(fuzzing)]
mod fuzz;

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::ALLOW;
use axum::http::{HeaderValue, Method, Request, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, head};
use seqsvr_proto::limits::MESSAGE_MAX;
use seqsvr_proto::v1::sequence_server::Sequence;
use tokio::runtime::Handle;
use tonic::{Code, Status};

use answer::Answer;
use ask::Ask;

pub(super) use answer::Number;
pub(super) use at_once::at_once;
pub(super) use field::Format;
#[cfg(fuzzing)]
pub(super) use fuzz::fuzz;

use super::answer::{json, response, text};
use super::memory::{ANSWER, Held, Memory};
use super::refusal::Refusal;
use super::{heard, query};

const NEXT: &str = "/v1/next";
/// Largest body of a request of one key.
const ONE_MAX: usize = 16 << 10;
/// Size of a body from which on another runtime reads it and writes its answer: a millisecond for
/// either.
const LARGE: usize = 16 << 10;
/// The contract, for people who read it or generate clients from it.
const OPENAPI: &str = include_str!("openapi.json");

/// The future of a call of the service.
type Called<'a, R> = Pin<Box<dyn Future<Output = Result<tonic::Response<R>, Status>> + Send + 'a>>;

struct Numbers<S> {
    sequence: Arc<S>,
    memory: Memory,
    /// Runtime that reads and writes large bodies: where a connection is served, others would wait.
    runtime: Handle,
}

pub(super) fn numbers<S: Sequence>(sequence: Arc<S>, memory: Memory) -> Router {
    let numbers = Arc::new(Numbers {
        sequence,
        memory,
        runtime: Handle::current(),
    });
    let openapi = || async { response(StatusCode::OK, "application/json", OPENAPI) };
    Router::new()
        .route(NEXT, asked(next::<S>))
        .route("/v1/next-many", asked(next_many::<S>))
        .route("/v1/current", asked(current::<S>))
        .route("/v1/current-many", asked(current_many::<S>))
        .route("/v1/raise-to", asked(raise_to::<S>))
        .route("/v1/openapi.json", get(openapi))
        .with_state(numbers)
}

/// Routes `GET` and `POST`. Not `HEAD`, which would take a number that no caller sees.
fn asked<S: Sequence, H, T>(handler: H) -> MethodRouter<Arc<Numbers<S>>>
where
    H: axum::handler::Handler<T, Arc<Numbers<S>>> + Clone,
    T: 'static,
{
    let refused = |uri: Uri| async move { refused(&uri) };
    head(refused)
        .get(handler.clone())
        .post(handler)
        .fallback(refused)
}

/// Rejects another method.
fn refused(uri: &Uri) -> Response {
    let text = format!("{} is asked by GET or POST", uri.path());
    let refusal = Refusal::http(StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented, text);
    let mut response = refusal.into_response();
    // RFC 9110, 15.5.6: a 405 must name the methods that the path has.
    let methods = HeaderValue::from_static("GET, POST");
    response.headers_mut().insert(ALLOW, methods);
    response
}

async fn next<S: Sequence>(
    State(numbers): State<Arc<Numbers<S>>>,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    one::<ask::Next, _>(request, |call| numbers.sequence.next(call)).await
}

async fn current<S: Sequence>(
    State(numbers): State<Arc<Numbers<S>>>,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    one::<ask::Current, _>(request, |call| numbers.sequence.current(call)).await
}

async fn raise_to<S: Sequence>(
    State(numbers): State<Arc<Numbers<S>>>,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    one::<ask::RaiseTo, _>(request, |call| numbers.sequence.raise_to(call)).await
}

async fn next_many<S: Sequence>(
    State(numbers): State<Arc<Numbers<S>>>,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    many::<ask::NextMany, _, S>(&numbers, request, |call| numbers.sequence.next_many(call)).await
}

async fn current_many<S: Sequence>(
    State(numbers): State<Arc<Numbers<S>>>,
    request: Request<Body>,
) -> Result<Response, Refusal> {
    let called = |call| numbers.sequence.current_many(call);
    many::<ask::CurrentMany, _, S>(&numbers, request, called).await
}

async fn one<'a, A: Ask, R: Answer>(
    request: Request<Body>,
    called: impl FnOnce(tonic::Request<A::Call>) -> Called<'a, R>,
) -> Result<Response, Refusal> {
    let Heard { call, format, .. } = hear::<A>(request, ONE_MAX, None).await?;
    let answer = called(call).await?.into_inner();
    Ok(json(StatusCode::OK, &answer.json(format)))
}

async fn many<'a, A: Ask, R: Answer, S>(
    numbers: &Numbers<S>,
    request: Request<Body>,
    called: impl FnOnce(tonic::Request<A::Call>) -> Called<'a, R>,
) -> Result<Response, Refusal> {
    let mut held = numbers.memory.begin()?;
    let many = Some((&mut held, &numbers.runtime));
    let Heard { call, format, size } = hear::<A>(request, MESSAGE_MAX, many).await?;
    let answer = called(call).await?.into_inner();
    let written = apart(&numbers.runtime, size, move || text(&answer.json(format)));
    let answer = held.answer(written.await?)?;
    Ok(response(StatusCode::OK, "application/json", answer))
}

/// A request that was read.
struct Heard<C> {
    call: tonic::Request<C>,
    /// How its answer is written.
    format: Format,
    /// Bytes of its body.
    size: usize,
}

/// Reads a request; one of many keys holds its memory, and waits for room before it is read.
async fn hear<A: Ask>(
    request: Request<Body>,
    max: usize,
    mut many: Option<(&mut Held, &Handle)>,
) -> Result<Heard<A::Call>, Refusal> {
    let (parts, body) = request.into_parts();
    let query = parts.uri.query().unwrap_or("");
    let body = match parts.method {
        Method::POST => {
            let held = many.as_mut().map(|(held, _)| &mut **held);
            heard::body(&parts.headers, body, max, held).await?
        }
        _ => bytes::Bytes::new(),
    };
    let (form, size) = (heard::is_form(&parts), body.len());
    if let Some((held, _)) = &mut many {
        held.whole(query.len() + size, ANSWER).await?;
    }
    let ask: A = match many {
        _ if body.is_empty() => fields(query)?,
        None => read(&body, form)?,
        Some((_, runtime)) => apart(runtime, size, move || read(&body, form)).await??,
    };
    let (timeout_ms, mut format) = ask.how();
    if size > 0 {
        // Read even if the body names a format: an unknown field of a query is always rejected.
        let other = fields::<ask::OnlyFormat>(query)?.format;
        format = format.or(other);
    }
    let within = timeout_ms.map(heard::within).transpose()?;
    let mut call = heard::call(&parts, ask.call().map_err(Refusal::unprocessable)?);
    if let Some(within) = within {
        call.set_timeout(within);
    }
    Ok(Heard {
        call,
        format: format.unwrap_or_default(),
        size,
    })
}

/// Reads the fields of a body.
fn read<A: Ask>(body: &[u8], form: bool) -> Result<A, Refusal> {
    if body.trim_ascii_start().starts_with(b"{") {
        serde_json::from_slice(body).map_err(|error| Refusal::invalid(error.to_string()))
    } else if form {
        fields(str::from_utf8(body).map_err(|_| Refusal::invalid("the form is no text"))?)
    } else {
        let text = "the body is neither an object of JSON nor a form: see /v1/openapi.json";
        Err(Refusal::invalid(text))
    }
}

/// Does work that takes long for a large request: in another runtime.
async fn apart<T: Send + 'static>(
    runtime: &Handle,
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    if size < LARGE {
        return Ok(work());
    }
    let done = runtime.spawn(async move { work() }).await;
    // The task fails if the process ends.
    done.map_err(|error| Status::internal(error.to_string()).into())
}

fn fields<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, Refusal> {
    query::read(text).map_err(|error| Refusal::invalid(error.to_string()))
}
