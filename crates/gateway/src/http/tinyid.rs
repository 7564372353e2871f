//! Tinyid's paths: `/tinyid/id/nextId`, `nextIdSimple`, `nextSegmentId`, `nextSegmentIdSimple` (docs/http.md has the
//! forms).

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_proto::error::Fault;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{Namespace, NextResponse, Reason};
use serde::Serialize;
use tonic::Status;

use super::answer::response;
use super::memory::{Held, Memory};
use super::numbers::{Format, Number};
use super::refusal::Refusal;
use super::spring::{self, thrown};
use super::tag::{Asked, stride, with_why};
use crate::secret::same;

/// Most numbers of one request; more count as so many.
const BATCH_MAX: u32 = COUNT_MAX;
/// Answers of more numbers count as memory that is held.
const SMALL: u32 = 1_000;
/// Most digits of a number, with what stands around it.
const DIGITS: usize = 22;
/// Percent of a segment after which a client is to load the next one.
const LOADING_PERCENT: u64 = 20;
/// Codes of an answer.
const OK: i32 = 200;
const TOKEN_ERR: (i32, &str) = (5, "token is error");
const SYS_ERR: i32 = 6;

struct Tinyid<S> {
    sequence: Arc<S>,
    memory: Memory,
    /// What a caller must give; None: anything.
    token: Option<String>,
}

#[derive(Serialize)]
struct Answer<T> {
    data: Option<T>,
    code: i32,
    message: String,
}

/// The numbers above `current_id`, to `max_id`, that are `remainder` modulo `delta`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Segment {
    max_id: Number,
    loading_id: Number,
    current_id: Number,
    delta: u32,
    remainder: u32,
}

pub(super) fn tinyid<S: Sequence>(
    sequence: Arc<S>,
    memory: Memory,
    token: Option<String>,
) -> Router {
    let tinyid = Arc::new(Tinyid {
        sequence,
        memory,
        token,
    });
    Router::new()
        .route("/tinyid/id/nextId", asked(next_id::<S>))
        .route("/tinyid/id/nextIdSimple", asked(next_id_simple::<S>))
        .route("/tinyid/id/nextSegmentId", asked(next_segment_id::<S>))
        .route(
            "/tinyid/id/nextSegmentIdSimple",
            asked(next_segment_id_simple::<S>),
        )
        .with_state(tinyid)
}

fn asked<S: Sequence, H, T>(handler: H) -> MethodRouter<Arc<Tinyid<S>>>
where
    H: axum::handler::Handler<T, Arc<Tinyid<S>>> + Clone,
    T: 'static,
{
    let no_head = || async { StatusCode::METHOD_NOT_ALLOWED };
    get(handler.clone()).post(handler).head(no_head)
}

/// Why a request has no numbers.
enum Failed {
    /// `batchSize` is no number.
    Mistyped {
        text: String,
        path: String,
    },
    Token,
    Status(Status),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        Failed::Status(Status::unavailable(refusal.message))
    }
}

impl From<Status> for Failed {
    fn from(status: Status) -> Failed {
        Failed::Status(status)
    }
}

async fn next_id<S: Sequence>(
    State(tinyid): State<Arc<Tinyid<S>>>,
    request: Request<Body>,
) -> Response {
    let (mut biz_type, mut format) = (String::new(), Format::Number);
    let taken = async {
        let asked = Asked::hear(request).await?;
        format = asked.format();
        let count = batch_size(&asked)?;
        biz_type = tinyid.biz_type(&asked)?;
        tinyid.take(&asked, &biz_type, count).await
    };
    let answered = taken.await.and_then(|(numbers, held)| {
        let data = numbers.map(|n| Number(n, format)).collect::<Vec<_>>();
        let answer = Answer {
            data: Some(data),
            code: OK,
            message: String::new(),
        };
        sent(spring::JSON, body(&answer), held)
    });
    answered.unwrap_or_else(|failed| {
        failed.answer(|status| format!("error query segmentId: {}", message(status, &biz_type)))
    })
}

async fn next_id_simple<S: Sequence>(
    State(tinyid): State<Arc<Tinyid<S>>>,
    request: Request<Body>,
) -> Response {
    let taken = async {
        let asked = Asked::hear(request).await?;
        let count = batch_size(&asked)?;
        let biz_type = tinyid.biz_type(&asked)?;
        let (numbers, held) = tinyid.take(&asked, &biz_type, count).await?;
        let mut text = Vec::with_capacity(count as usize * DIGITS);
        for number in numbers {
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        text.shrink_to_fit();
        sent(spring::TEXT, text, held)
    };
    simple(taken.await)
}

/// The answer, which goes on holding what it holds.
fn sent(kind: &'static str, body: Vec<u8>, held: Option<Held>) -> Result<Response, Failed> {
    let body = match held {
        Some(held) => held.answer(body)?,
        None => body.into(),
    };
    Ok(response(StatusCode::OK, kind, body))
}

async fn next_segment_id<S: Sequence>(
    State(tinyid): State<Arc<Tinyid<S>>>,
    request: Request<Body>,
) -> Response {
    let mut biz_type = String::new();
    let taken = async {
        let asked = Asked::hear(request).await?;
        biz_type = tinyid.biz_type(&asked)?;
        Ok::<_, Failed>(tinyid.segment(&asked, &biz_type).await?)
    };
    match taken.await {
        Ok(segment) => {
            let body = body(&Answer {
                data: Some(segment),
                code: OK,
                message: String::new(),
            });
            response(StatusCode::OK, spring::JSON, body)
        }
        Err(failed) => failed.answer(|status| message(status, &biz_type)),
    }
}

async fn next_segment_id_simple<S: Sequence>(
    State(tinyid): State<Arc<Tinyid<S>>>,
    request: Request<Body>,
) -> Response {
    let taken = async {
        let asked = Asked::hear(request).await?;
        let biz_type = tinyid.biz_type(&asked)?;
        let Segment {
            max_id: Number(max, _),
            loading_id: Number(loading, _),
            current_id: Number(current, _),
            delta,
            remainder,
        } = tinyid.segment(&asked, &biz_type).await?;
        let text = format!("{current},{loading},{max},{delta},{remainder}");
        sent(spring::TEXT, text.into_bytes(), None)
    };
    simple(taken.await)
}

/// Text; of what failed, none.
fn simple(taken: Result<Response, Failed>) -> Response {
    let empty = || response(StatusCode::OK, spring::TEXT, "");
    match taken {
        Ok(answer) => answer,
        Err(Failed::Token) => empty(),
        Err(Failed::Status(status)) => with_why(empty(), &status),
        Err(failed) => failed.answer(|_| String::new()),
    }
}

impl<S: Sequence> Tinyid<S> {
    /// Whose numbers are asked for.
    fn biz_type(&self, asked: &Asked) -> Result<String, Failed> {
        let may = match (&self.token, asked.field("token")) {
            (None, _) => true,
            (Some(token), Some(given)) => same(token.as_bytes(), given.as_bytes()),
            (Some(_), None) => false,
        };
        asked.field("bizType").filter(|_| may).ok_or(Failed::Token)
    }

    /// So many numbers, and what an answer of many holds.
    async fn take(
        &self,
        asked: &Asked,
        biz_type: &str,
        count: u32,
    ) -> Result<(impl Iterator<Item = u64> + use<S>, Option<Held>), Failed> {
        let mut held = None;
        if count > SMALL {
            let held = held.insert(self.memory.begin()?);
            held.whole(0, count as usize * (DIGITS + size_of::<Number>()))
                .await?;
        }
        let answer = match count {
            // The original takes none, and says nothing of it.
            0 => {
                let namespace = asked.namespace(&*self.sequence, biz_type).await?;
                namespace.ok_or_else(|| no_such(biz_type))?;
                NextResponse::default()
            }
            count => asked.take(&*self.sequence, biz_type, count).await?,
        };
        let stride = stride(&answer, count);
        let numbers = (0..u64::from(count)).map(move |i| answer.first + i * stride);
        Ok((numbers, held))
    }

    /// As many numbers as the namespace's step.
    async fn segment(&self, asked: &Asked, biz_type: &str) -> Result<Segment, Status> {
        let namespace = asked.namespace(&*self.sequence, biz_type).await?;
        let Namespace {
            step,
            stride,
            offset,
            ..
        } = namespace.ok_or_else(|| no_such(biz_type))?;
        let count = step.clamp(1, COUNT_MAX);
        let answer = asked.take(&*self.sequence, biz_type, count).await?;
        // What is not congruent to the remainder the original's clients pass over.
        let current = answer.first - 1;
        let format = asked.format();
        Ok(Segment {
            max_id: Number(answer.last, format),
            loading_id: Number(
                current + (answer.last - current) * LOADING_PERCENT / 100,
                format,
            ),
            current_id: Number(current, format),
            delta: stride,
            remainder: offset,
        })
    }
}

impl Asked {
    fn format(&self) -> Format {
        match self.field("format").as_deref() {
            Some("string") => Format::String,
            _ => Format::Number,
        }
    }
}

/// As the original takes it: none is 1, a negative one none, a large one the largest.
fn batch_size(asked: &Asked) -> Result<u32, Failed> {
    let Some(text) = asked.field("batchSize") else {
        return Ok(1);
    };
    match text.trim().parse::<i32>() {
        Ok(size) => Ok(u32::try_from(size).unwrap_or(0).min(BATCH_MAX)),
        Err(_) => Err(Failed::Mistyped {
            text,
            path: asked.parts.uri.path().to_owned(),
        }),
    }
}

fn no_such(biz_type: &str) -> Status {
    Fault::new(
        Reason::NoSuchNamespace,
        format!("there is no namespace {biz_type:?}"),
    )
    .into()
}

fn message(status: &Status, biz_type: &str) -> String {
    match Fault::from_status(status).reason() {
        Reason::NoSuchNamespace => format!("can not find biztype:{biz_type}"),
        _ => status.message().to_owned(),
    }
}

fn body(answer: &Answer<impl Serialize>) -> Vec<u8> {
    // Neither a Vec nor these fields can fail to be written.
    serde_json::to_vec(answer).unwrap_or_default()
}

impl Failed {
    fn answer(self, message: impl FnOnce(&Status) -> String) -> Response {
        let (code, message) = match self {
            Failed::Mistyped { text, path } => {
                let exception =
                    "org.springframework.web.method.annotation.MethodArgumentTypeMismatchException";
                let message = format!(
                    "Failed to convert value of type 'java.lang.String' to required type 'java.lang.Integer'; nested exception is java.lang.NumberFormatException: For input string: \"{text}\""
                );
                return thrown(StatusCode::BAD_REQUEST, exception, &message, &path);
            }
            Failed::Token => (TOKEN_ERR.0, TOKEN_ERR.1.to_owned()),
            Failed::Status(status) => (SYS_ERR, message(&status)),
        };
        let body = body(&Answer::<()> {
            data: None,
            code,
            message,
        });
        response(StatusCode::OK, spring::JSON, body)
    }
}
