//! The public contract: requests become items, answers become responses.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::id::Epoch;
use seqsvr_core::route::KeyRef;
use seqsvr_proto::LocalSequence;
use seqsvr_proto::cluster_tag::{ClusterTag, NamesCluster};
use seqsvr_proto::convert::Keyed;
use seqsvr_proto::error::Fault;
use seqsvr_proto::transport::Share;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentManyResponse, CurrentRequest, CurrentResponse, NextManyRequest,
    NextManyResponse, NextRequest, NextResponse, PipeRequest, RaiseToRequest, RaiseToResponse,
    Reason, RoutesRequest, RoutingTable,
};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};
use tracing::Instrument;

use crate::ask::{ItemAnswer, ItemOperation, RequestContext, RequestItem};
use crate::columns::BatchResponse;
use crate::frame::{BatchRequest, TakeArgs};
use crate::hits::FastPathResult;
use crate::node::Node;
use crate::pipe::PipeResponses;
use crate::request::{RequestArrival, count, invalid, key, named, namespace};
use crate::timing::CallMethod;

/// How long the opening of a Pipe waits for the first routing table.
const PIPE_TABLE_TIMEOUT: Duration = Duration::from_secs(1);

/// The gRPC service over a node.
pub(crate) struct SequenceService(pub(crate) Arc<Node>);

#[tonic::async_trait]
impl Sequence for SequenceService {
    async fn next(&self, request: Request<NextRequest>) -> Result<Response<NextResponse>, Status> {
        self.timed(CallMethod::Next, request, |received, request| async move {
            self.0.cluster.check(request.cluster_tag())?;
            namespace(&request.namespace)?;
            let wanted = TakeArgs {
                count: count(request.count.unwrap_or(1))?,
                floor: request.floor.unwrap_or(0),
                epoch: request.epoch.unwrap_or(0),
            };
            let version = request.table_version;
            let numbers = |first, last, epoch: Epoch| NextResponse {
                first,
                last,
                epoch: epoch.0,
                routes: self.0.table.routes_for(version),
                cluster_tag: self.0.cluster.tag().0,
            };
            let known = named(request.key_ref())?;
            // One more look at the clock than a frame of many takes, so that a lease that is over
            // burns nothing.
            if !request.strict
                && self.0.has_lease()
                && let Some((range, epoch)) = self.0.hit_one(&request.namespace, known, wanted)
            {
                return Ok(numbers(range.first, range.last, epoch));
            }
            match self.one_later(received, request.into()).await? {
                ItemAnswer::Numbers { first, last, epoch } => Ok(numbers(first, last, epoch)),
                _ => Err(mixed()),
            }
        })
        .await
    }

    async fn next_many(
        &self,
        request: Request<NextManyRequest>,
    ) -> Result<Response<NextManyResponse>, Status> {
        self.timed(
            CallMethod::NextMany,
            request,
            |received, request| async move {
                let version = request.table_version;
                let columns = self.many(received, request.into()).await?;
                Ok(NextManyResponse {
                    routes: self.0.table.routes_for(version),
                    cluster_tag: self.0.cluster.tag().0,
                    ..columns.whole().into_next()
                })
            },
        )
        .await
    }

    async fn current(
        &self,
        request: Request<CurrentRequest>,
    ) -> Result<Response<CurrentResponse>, Status> {
        self.timed(
            CallMethod::Current,
            request,
            |received, request| async move {
                self.0.cluster.check(request.cluster_tag())?;
                namespace(&request.namespace)?;
                named(request.key_ref())?;
                let version = request.table_version;
                let frame = BatchRequest::from(request);
                let hit = self.0.has_lease().then(|| self.0.hit(&frame));
                let answer = match hit.and_then(|hits| hits.columns.single()) {
                    Some(answer) => answer,
                    None => self.one_later(received, frame).await?,
                };
                match answer {
                    ItemAnswer::Current { kind, value, epoch } => Ok(CurrentResponse {
                        kind: kind.into(),
                        value,
                        epoch: epoch.0,
                        routes: self.0.table.routes_for(version),
                        cluster_tag: self.0.cluster.tag().0,
                    }),
                    _ => Err(mixed()),
                }
            },
        )
        .await
    }

    async fn current_many(
        &self,
        request: Request<CurrentManyRequest>,
    ) -> Result<Response<CurrentManyResponse>, Status> {
        self.timed(
            CallMethod::CurrentMany,
            request,
            |received, request| async move {
                let version = request.table_version;
                let columns = self.many(received, request.into()).await?;
                Ok(CurrentManyResponse {
                    routes: self.0.table.routes_for(version),
                    cluster_tag: self.0.cluster.tag().0,
                    ..columns.whole().into_current()
                })
            },
        )
        .await
    }

    type PipeStream = PipeResponses;

    async fn pipe(
        &self,
        request: Request<Streaming<PipeRequest>>,
    ) -> Result<Response<PipeResponses>, Status> {
        let caller = ClusterTag::from_metadata(request.metadata())?;
        if caller != ClusterTag::NONE {
            // So that the answer can name the cluster. Without a table no frame could be answered.
            let deadline = Instant::now() + PIPE_TABLE_TIMEOUT;
            self.0.table_by(deadline).await?;
            self.0.cluster.check(caller)?;
        }
        let mut response = Response::new(PipeResponses::new(self.0.clone(), request));
        self.0.cluster.tag().write_metadata(response.metadata_mut());
        Ok(response)
    }

    async fn raise_to(
        &self,
        request: Request<RaiseToRequest>,
    ) -> Result<Response<RaiseToResponse>, Status> {
        self.timed(
            CallMethod::RaiseTo,
            request,
            |received, request| async move {
                self.0.cluster.check(request.cluster_tag())?;
                namespace(&request.namespace)?;
                if request.value == 0 || request.value > seqsvr_core::SEQ_MAX {
                    return Err(invalid(format!(
                        "RaiseTo takes a number from 1 to 2^63-1, not {}",
                        request.value
                    )));
                }
                let ask = ItemOperation::RaiseTo {
                    value: request.value,
                    force: request.force,
                };
                let item = RequestItem {
                    key: key(request.key_ref())?,
                    ask,
                    epoch: request.epoch.unwrap_or(0),
                };
                let version = request.table_version;
                let (cluster, forwarded) = (request.cluster_tag(), request.forwarded);
                let call = received.call(request.namespace, cluster, version, forwarded, false);
                match self.later(call, item).await? {
                    ItemAnswer::Raised { value, epoch } => Ok(RaiseToResponse {
                        value,
                        epoch: epoch.0,
                        routes: self.0.table.routes_for(version),
                        cluster_tag: self.0.cluster.tag().0,
                    }),
                    _ => Err(mixed()),
                }
            },
        )
        .await
    }

    async fn routes(
        &self,
        request: Request<RoutesRequest>,
    ) -> Result<Response<RoutingTable>, Status> {
        self.timed(
            CallMethod::Routes,
            request,
            |received, request| async move {
                let deadline = received.deadline;
                let base = request.base;
                let table = self.0.table_by(deadline).await?;
                self.0.cluster.check(request.cluster_tag())?;
                if base > table.version() {
                    self.0.refresh(deadline).await;
                }
                let table = self.0.table_by(deadline).await?;
                Ok(RoutingTable::from(&table.delta_since(base)))
            },
        )
        .await
    }
}

impl LocalSequence for SequenceService {
    fn take(&self, namespace: &str, key: KeyRef<'_>, count: u32) -> Option<NextResponse> {
        let at = Instant::now();
        let wanted = TakeArgs {
            count: NonZeroU32::new(count)?,
            floor: 0,
            epoch: 0,
        };
        let (range, epoch) = self.0.hit_one(namespace, key, wanted)?;
        self.0.timing.took(CallMethod::Next, at.elapsed(), 1);
        Some(NextResponse {
            first: range.first,
            last: range.last,
            epoch: epoch.0,
            routes: None,
            cluster_tag: 0,
        })
    }

    async fn take_many(
        &self,
        request: NextManyRequest,
        share: &Share,
    ) -> Result<NextManyResponse, Status> {
        let received = RequestArrival::here(share);
        self.observed(CallMethod::NextMany, received, |received| async move {
            Ok(self.many(received, request.into()).await?.into_next())
        })
        .await
    }
}

impl SequenceService {
    /// Answers a call, and notes how long it took and how it failed.
    async fn timed<T, U, F>(
        &self,
        method: CallMethod,
        request: Request<T>,
        answer: impl FnOnce(RequestArrival, T) -> F,
    ) -> Result<Response<U>, Status>
    where
        F: Future<Output = Result<U, Status>>,
    {
        let (received, request) = RequestArrival::new(request);
        let answering = |received| answer(received, request);
        self.observed(method, received, answering)
            .await
            .map(Response::new)
    }

    /// The same of whatever came.
    async fn observed<U, F>(
        &self,
        method: CallMethod,
        received: RequestArrival,
        answer: impl FnOnce(RequestArrival) -> F,
    ) -> Result<U, Status>
    where
        F: Future<Output = Result<U, Status>>,
    {
        let underway = self.0.timing.begin(method, received.at);
        let trace = received.trace.as_ref();
        let span = trace.map(|trace| tracing::info_span!("call", ?method, trace = trace.id()));
        let answering = answer(received);
        let answered = match &span {
            None => answering.await,
            Some(span) => answering.instrument(span.clone()).await,
        };
        let took = underway.end();
        let answered = answered.map_err(|status| {
            let fault = Fault::from_status(&status);
            self.0.timing.failed(fault.reason());
            Status::from(fault.with_cluster_tag(self.0.cluster.tag()))
        });
        if let Some(span) = span {
            let error = answered.as_ref().err().map(Status::message);
            span.in_scope(|| tracing::debug!(?took, error, "answered"));
        }
        answered
    }

    /// Answers of all items; short, if memory had them all.
    async fn many(
        &self,
        received: RequestArrival,
        frame: BatchRequest,
    ) -> Result<BatchResponse, Fault> {
        self.0.cluster.check(frame.cluster)?;
        frame.check(self.0.items_max)?;
        let FastPathResult {
            columns, missed, ..
        } = self.0.hit(&frame);
        if missed.is_empty() {
            return Ok(columns);
        }
        let frame = frame.only(&missed);
        let node = self.0.clone();
        let rest = async move {
            let call = frame.call(received.deadline, received.share, received.trace);
            columns.merge(&missed, node.serve_frame(&call, &frame).await)
        };
        self.0.background.run(rest.in_current_span()).await
    }

    /// Answers a frame of one item the long way.
    async fn one_later(
        &self,
        received: RequestArrival,
        frame: BatchRequest,
    ) -> Result<ItemAnswer, Status> {
        let item = frame.item(0)?;
        self.later(
            frame.call(received.deadline, received.share, received.trace),
            item,
        )
        .await
    }

    /// Answers an item the long way.
    async fn later(&self, call: RequestContext, item: RequestItem) -> Result<ItemAnswer, Status> {
        let (node, version) = (self.0.clone(), call.table_version);
        let served = async move { node.serve(&call, &[item]).await.pop() };
        let answer = self.0.background.run(served.in_current_span()).await?;
        let answer = answer.unwrap_or_else(|| Err(Fault::new(Reason::Unspecified, "no answer")));
        Ok(answer.map_err(|fault| match fault.reason() {
            // What else a caller may know better by a newer table.
            Reason::NotOwner | Reason::NoLease | Reason::NoSuchNamespace => {
                fault.with_routes(self.0.table.routes_for(version))
            }
            _ => fault,
        })?)
    }
}

fn mixed() -> Status {
    Status::internal("an item was answered by another kind of answer")
}
