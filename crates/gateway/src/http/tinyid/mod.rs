//! Tinyid's paths: `/tinyid/id/nextId`, `nextIdSimple`, `nextSegmentId`, `nextSegmentIdSimple`
//! (docs/http.md has the forms).

mod answer;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::namespace::Namespace;
use seqsvr_proto::v1::NextResponse;
use seqsvr_proto::v1::sequence_server::Sequence;
use serde::Serialize;
use tonic::Status;

use answer::{Answer, Failed, OK, body, message, no_such, sent, simple};

use super::memory::{Held, Memory};
use super::numbers::{Format, Number};
use super::routes::Routes;
use super::spring;
use super::tag::{Asked, no_head};
use crate::secret::same;
use crate::stride::stride;

/// Most numbers of one request; a larger count is reduced to this.
const BATCH_MAX: u32 = COUNT_MAX;
/// Numbers above which an answer counts as held memory.
const SMALL: u32 = 1_000;
/// Most digits of a number, with the characters around it.
const DIGITS: usize = 22;
/// Percent of a segment after which a client should load the next one.
const LOADING_PERCENT: u64 = 20;

struct Tinyid<S> {
    sequence: Arc<S>,
    memory: Memory,
    routes: Routes,
    /// Token that a caller must give; None: callers need none.
    token: Option<String>,
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
        routes: Routes::default(),
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
    get(handler.clone()).post(handler).head(no_head)
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
    let answered = taken.await.and_then(|segment| {
        let answer = Answer {
            data: Some(segment),
            code: OK,
            message: String::new(),
        };
        sent(spring::JSON, body(&answer), None)
    });
    answered.unwrap_or_else(|failed| failed.answer(|status| message(status, &biz_type)))
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

impl<S: Sequence> Tinyid<S> {
    /// Returns the type of the requested numbers.
    fn biz_type(&self, asked: &Asked) -> Result<String, Failed> {
        let may = match (&self.token, asked.field("token")) {
            (None, _) => true,
            (Some(token), Some(given)) => same(token.as_bytes(), given.as_bytes()),
            (Some(_), None) => false,
        };
        asked.field("bizType").filter(|_| may).ok_or(Failed::Token)
    }

    /// Takes so many numbers; returns also the memory that an answer of many holds.
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
            // The original takes none, and reports no error.
            0 => {
                let namespace = self.namespace(asked, biz_type).await?;
                namespace.ok_or_else(|| no_such(biz_type))?;
                NextResponse::default()
            }
            count => asked.take(&*self.sequence, biz_type, count).await?,
        };
        let stride = stride(answer.first, answer.last, count);
        let numbers = (0..u64::from(count)).map(move |i| answer.first + i * stride);
        Ok((numbers, held))
    }

    async fn namespace(&self, asked: &Asked, biz_type: &str) -> Result<Option<Namespace>, Status> {
        asked
            .namespace(&*self.sequence, &self.routes, biz_type)
            .await
    }

    /// Takes as many numbers as the namespace's step.
    async fn segment(&self, asked: &Asked, biz_type: &str) -> Result<Segment, Status> {
        let namespace = self.namespace(asked, biz_type).await?;
        let spec = namespace.ok_or_else(|| no_such(biz_type))?.spec;
        let count = spec.step.clamp(1, COUNT_MAX);
        let answer = asked.take(&*self.sequence, biz_type, count).await?;
        // The original's clients skip numbers that are not congruent to the remainder.
        let current = answer.first - 1;
        let format = asked.format();
        Ok(Segment {
            max_id: Number(answer.last, format),
            loading_id: Number(
                current + (answer.last - current) * LOADING_PERCENT / 100,
                format,
            ),
            current_id: Number(current, format),
            delta: spec.progression.stride,
            remainder: spec.progression.offset,
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

/// Reads it as the original does: a missing one is 1, a negative one 0, a large one the largest.
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
