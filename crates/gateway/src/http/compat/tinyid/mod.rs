//! Tinyid's paths: `/tinyid/id/nextId`, `nextIdSimple`, `nextSegmentId`, `nextSegmentIdSimple`
//! (docs/guide/http.md has the forms).

mod response;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use seqsvr_core::geometry::COUNT_MAX;
use seqsvr_core::namespace::Namespace;
use seqsvr_net::LocalSequence;
use seqsvr_proto::v1::NextResponse;
use serde::Serialize;
use tonic::Status;

use response::{
    TinyidError, body_response, data_response, error_message, namespace_not_found, simple_response,
};

use super::spring_error;
use super::tag_request::{TagRequest, TokenPlace, reject_head};
use crate::http::json::{FormattedNumber, NumberFormat};
use crate::http::memory_limit::{MemoryLimit, MemoryReservation};
use crate::stride::stride_of;

/// Maximum numbers of one request; a larger count is reduced to this.
const BATCH_SIZE_MAX: u32 = COUNT_MAX;
/// Numbers of an answer above which it reserves memory.
const UNRESERVED_NUMBERS_MAX: u32 = 1_000;
/// Maximum bytes of a number in an answer, with the characters around it.
const NUMBER_TEXT_BYTES_MAX: usize = 22;
/// Percent of a segment after which a client should load the next one.
const LOADING_PERCENT: u64 = 20;

/// State of the handlers.
struct TinyidApi<S> {
    sequence: Arc<S>,
    memory: MemoryLimit,
}

/// The numbers above `current_id`, to `max_id`, that are `remainder` modulo `delta`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TinyidSegment {
    max_id: FormattedNumber,
    loading_id: FormattedNumber,
    current_id: FormattedNumber,
    delta: u32,
    remainder: u32,
}

pub(super) fn tinyid_routes<S: LocalSequence>(sequence: Arc<S>, memory: MemoryLimit) -> Router {
    let api = Arc::new(TinyidApi { sequence, memory });
    Router::new()
        .route("/tinyid/id/nextId", get_or_post(handle_next_id::<S>))
        .route(
            "/tinyid/id/nextIdSimple",
            get_or_post(handle_next_id_simple::<S>),
        )
        .route(
            "/tinyid/id/nextSegmentId",
            get_or_post(handle_next_segment_id::<S>),
        )
        .route(
            "/tinyid/id/nextSegmentIdSimple",
            get_or_post(handle_next_segment_id_simple::<S>),
        )
        .with_state(api)
}

fn get_or_post<S: LocalSequence, H, T>(handler: H) -> MethodRouter<Arc<TinyidApi<S>>>
where
    H: axum::handler::Handler<T, Arc<TinyidApi<S>>> + Clone,
    T: 'static,
{
    get(handler.clone()).post(handler).head(reject_head)
}

async fn handle_next_id<S: LocalSequence>(
    State(api): State<Arc<TinyidApi<S>>>,
    request: Request<Body>,
) -> Response {
    let (mut biz_type, mut format) = (String::new(), NumberFormat::Number);
    let result = async {
        let request = TagRequest::read(request, TokenPlace::HeadOrField).await?;
        format = number_format(&request);
        let count = parse_batch_size(&request)?;
        biz_type = granted_biz_type(&request)?;
        api.take_numbers(&request, &biz_type, count).await
    };
    let response = result.await.and_then(|(numbers, reservation)| {
        let data = numbers
            .map(|n| FormattedNumber(n, format))
            .collect::<Vec<_>>();
        data_response(data, reservation)
    });
    response.unwrap_or_else(|error| {
        error.into_response(|status| {
            format!(
                "error query segmentId: {}",
                error_message(status, &biz_type)
            )
        })
    })
}

async fn handle_next_id_simple<S: LocalSequence>(
    State(api): State<Arc<TinyidApi<S>>>,
    request: Request<Body>,
) -> Response {
    let result = async {
        let request = TagRequest::read(request, TokenPlace::HeadOrField).await?;
        let count = parse_batch_size(&request)?;
        let biz_type = granted_biz_type(&request)?;
        let (numbers, reservation) = api.take_numbers(&request, &biz_type, count).await?;
        let mut text = Vec::with_capacity(count as usize * NUMBER_TEXT_BYTES_MAX);
        for number in numbers {
            if !text.is_empty() {
                text.push(b',');
            }
            text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        }
        text.shrink_to_fit();
        body_response(spring_error::CONTENT_TYPE_TEXT, text, reservation)
    };
    simple_response(result.await)
}

async fn handle_next_segment_id<S: LocalSequence>(
    State(api): State<Arc<TinyidApi<S>>>,
    request: Request<Body>,
) -> Response {
    let mut biz_type = String::new();
    let result = async {
        let request = TagRequest::read(request, TokenPlace::HeadOrField).await?;
        biz_type = granted_biz_type(&request)?;
        Ok::<_, TinyidError>(api.take_segment(&request, &biz_type).await?)
    };
    let response = result
        .await
        .and_then(|segment| data_response(segment, None));
    response.unwrap_or_else(|error| error.into_response(|status| error_message(status, &biz_type)))
}

async fn handle_next_segment_id_simple<S: LocalSequence>(
    State(api): State<Arc<TinyidApi<S>>>,
    request: Request<Body>,
) -> Response {
    let result = async {
        let request = TagRequest::read(request, TokenPlace::HeadOrField).await?;
        let biz_type = granted_biz_type(&request)?;
        let TinyidSegment {
            max_id: FormattedNumber(max, _),
            loading_id: FormattedNumber(loading, _),
            current_id: FormattedNumber(current, _),
            delta,
            remainder,
        } = api.take_segment(&request, &biz_type).await?;
        let text = format!("{current},{loading},{max},{delta},{remainder}");
        body_response(spring_error::CONTENT_TYPE_TEXT, text.into_bytes(), None)
    };
    simple_response(result.await)
}

impl<S: LocalSequence> TinyidApi<S> {
    /// Takes `count` numbers; returns also the reservation of memory of a large answer.
    async fn take_numbers(
        &self,
        request: &TagRequest,
        biz_type: &str,
        count: u32,
    ) -> Result<
        (
            impl Iterator<Item = u64> + use<S>,
            Option<MemoryReservation>,
        ),
        TinyidError,
    > {
        let mut reservation = None;
        if count > UNRESERVED_NUMBERS_MAX {
            let reservation = reservation.insert(self.memory.begin_request()?);
            reservation
                .reserve_complete(
                    0,
                    count as usize * (NUMBER_TEXT_BYTES_MAX + size_of::<FormattedNumber>()),
                )
                .await?;
        }
        let answer = match count {
            // Tinyid takes no number, and reports no error.
            0 => {
                self.find_namespace(biz_type).await?;
                NextResponse::default()
            }
            count => {
                request
                    .take_numbers(&*self.sequence, biz_type, count)
                    .await?
            }
        };
        let stride = stride_of(answer.first, answer.last, count);
        let numbers = (0..u64::from(count)).map(move |i| answer.first + i * stride);
        Ok((numbers, reservation))
    }

    /// Returns the namespace of a tag.
    async fn find_namespace(&self, biz_type: &str) -> Result<Namespace, Status> {
        let namespace = self.sequence.namespace(biz_type).await?;
        namespace.ok_or_else(|| namespace_not_found(biz_type))
    }

    /// Takes as many numbers as the namespace's step.
    async fn take_segment(
        &self,
        request: &TagRequest,
        biz_type: &str,
    ) -> Result<TinyidSegment, Status> {
        let spec = self.find_namespace(biz_type).await?.spec;
        let count = spec.step.clamp(1, COUNT_MAX);
        let answer = request
            .take_numbers(&*self.sequence, biz_type, count)
            .await?;
        // Tinyid's clients skip numbers that are not congruent to the remainder.
        let current = answer.first - 1;
        let format = number_format(request);
        Ok(TinyidSegment {
            max_id: FormattedNumber(answer.last, format),
            loading_id: FormattedNumber(
                current + (answer.last - current) * LOADING_PERCENT / 100,
                format,
            ),
            current_id: FormattedNumber(current, format),
            delta: spec.progression.stride,
            remainder: spec.progression.offset,
        })
    }
}

/// Returns the tag of a request, on which its caller has the right.
fn granted_biz_type(request: &TagRequest) -> Result<String, TinyidError> {
    let biz_type = request.find_field("bizType");
    let biz_type = biz_type.ok_or(TinyidError::MissingField)?;
    request.check_right(&biz_type)?;
    Ok(biz_type)
}

/// Returns the format of numbers that a request sets.
fn number_format(request: &TagRequest) -> NumberFormat {
    match request.find_field("format").as_deref() {
        Some("string") => NumberFormat::String,
        _ => NumberFormat::Number,
    }
}

/// Parses the batch size as Tinyid does: 1 if it is missing, 0 if it is negative, and at most
/// [`BATCH_SIZE_MAX`].
fn parse_batch_size(request: &TagRequest) -> Result<u32, TinyidError> {
    let Some(text) = request.find_field("batchSize") else {
        return Ok(1);
    };
    match text.trim().parse::<i32>() {
        Ok(size) => Ok(u32::try_from(size).unwrap_or(0).min(BATCH_SIZE_MAX)),
        Err(_) => Err(TinyidError::InvalidBatchSize {
            text,
            path: request.parts.uri.path().to_owned(),
        }),
    }
}
