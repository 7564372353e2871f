//! The `Sequence` service: requests become items, answers become responses.

mod raise_call;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use seqsvr_access::{Access, Caller, GrantTarget, NamespaceRight};
use seqsvr_core::ids::Epoch;
use seqsvr_core::key::KeyRef;
use seqsvr_core::routing_table;
use seqsvr_net::{ConnectionQuota, LocalSequence};
use seqsvr_proto::cluster_tag::{ClusterTag, ClusterTagged};
use seqsvr_proto::convert::{RequestKey, namespace_name};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{
    CurrentManyRequest, CurrentManyResponse, CurrentRequest, CurrentResponse, NextManyRequest,
    NextManyResponse, NextRequest, NextResponse, PipeRequest, RaiseToRequest, RaiseToResponse,
    Reason, RoutesRequest, RoutingTable,
};
use tokio::time::Instant;
use tonic::{Request, Response, Status, Streaming};
use tracing::{Instrument, Span};

use crate::api::pipe_responses::PipeResponses;
use crate::api::sequence_parts::SequenceParts;
use crate::batch::item::{ItemAnswer, ItemOperation, RequestItem};
use crate::batch::request::{BatchRequest, TakeArgs};
use crate::batch::request_context::{
    RequestArrival, RequestContext, judged_caller, response_deadline,
};
use crate::batch::response::BatchResponse;
use crate::batch::validate::{check_right, require_key, validate_count, validate_namespace_name};
use crate::fast_path::FastPathResult;
use crate::metrics::call_metrics::CallMethod;
use crate::session::routing_table_cell::visible_delta;

/// Maximum wait of a new Pipe for the first routing table; after it the Pipe is rejected.
const PIPE_TABLE_TIMEOUT: Duration = Duration::from_secs(1);

/// `Sequence` service of an AllocSvr.
pub(crate) struct SequenceService(pub(crate) Arc<SequenceParts>);

#[tonic::async_trait]
impl Sequence for SequenceService {
    async fn next(&self, request: Request<NextRequest>) -> Result<Response<NextResponse>, Status> {
        self.with_metrics(CallMethod::Next, request, |arrival, request| async move {
            self.0.shared.own_cluster.check(request.cluster_tag())?;
            let key = require_key(request.key_ref())?;
            let target = GrantTarget::Namespace(namespace_name(&request.namespace, key));
            check_right(&arrival.caller, NamespaceRight::Next, target)?;
            validate_namespace_name(&request.namespace)?;
            let wanted = TakeArgs {
                count: validate_count(request.count.unwrap_or(1))?,
                floor: request.floor.unwrap_or(0),
                epoch: request.epoch.unwrap_or(0),
            };
            let table_version = request.table_version;
            let caller = arrival.caller.clone();
            let numbers = |first, last, epoch: Epoch| NextResponse {
                first,
                last,
                epoch: epoch.0,
                routes: self.0.shared.table.routes_since(table_version, &caller),
                cluster_tag: self.0.shared.own_cluster.tag().0,
            };
            // One more clock reading than a batch needs, so that an expired lease burns no number.
            if !request.strict
                && self.0.shared.session.has_lease()
                && let Some((range, epoch)) =
                    self.0.fast_path.try_one(&request.namespace, key, wanted)
            {
                return Ok(numbers(range.first, range.last, epoch));
            }
            let item = RequestItem {
                key: key.into(),
                operation: ItemOperation::Next {
                    count: wanted.count,
                    floor: wanted.floor,
                },
                epoch: wanted.epoch,
            };
            let (cluster, forwarded) = (request.cluster_tag(), request.forwarded);
            let call = arrival.into_context(
                request.namespace,
                cluster,
                table_version,
                forwarded,
                request.strict,
            );
            match self.serve_slow(&caller, call, item).await? {
                ItemAnswer::Numbers { first, last, epoch } => Ok(numbers(first, last, epoch)),
                _ => Err(mismatched_answer()),
            }
        })
        .await
    }

    async fn next_many(
        &self,
        request: Request<NextManyRequest>,
    ) -> Result<Response<NextManyResponse>, Status> {
        self.with_metrics(
            CallMethod::NextMany,
            request,
            |arrival, request| async move {
                let table_version = request.table_version;
                let caller = arrival.caller.clone();
                let columns = self.serve_batch(arrival, request.into()).await?;
                Ok(NextManyResponse {
                    routes: self.0.shared.table.routes_since(table_version, &caller),
                    cluster_tag: self.0.shared.own_cluster.tag().0,
                    ..columns.expand_columns().into_next()
                })
            },
        )
        .await
    }

    async fn current(
        &self,
        request: Request<CurrentRequest>,
    ) -> Result<Response<CurrentResponse>, Status> {
        self.with_metrics(
            CallMethod::Current,
            request,
            |arrival, request| async move {
                self.0.shared.own_cluster.check(request.cluster_tag())?;
                require_key(request.key_ref())?;
                let table_version = request.table_version;
                let batch = BatchRequest::from(request);
                let caller = arrival.caller;
                batch.check_right(&caller)?;
                validate_namespace_name(&batch.namespace)?;
                let result = self
                    .0
                    .shared
                    .session
                    .has_lease()
                    .then(|| self.0.fast_path.try_batch(&batch));
                let answer = match result.and_then(|result| result.answers.to_single_current()) {
                    Some(answer) => answer,
                    None => {
                        let item = batch.to_item(0)?;
                        let (deadline, share) = (arrival.deadline, arrival.share);
                        let call = batch.to_context(&caller, deadline, share, arrival.trace);
                        self.serve_slow(&caller, call, item).await?
                    }
                };
                match answer {
                    ItemAnswer::Current { kind, value, epoch } => Ok(CurrentResponse {
                        kind: kind.into(),
                        value,
                        epoch: epoch.0,
                        routes: self.0.shared.table.routes_since(table_version, &caller),
                        cluster_tag: self.0.shared.own_cluster.tag().0,
                    }),
                    _ => Err(mismatched_answer()),
                }
            },
        )
        .await
    }

    async fn current_many(
        &self,
        request: Request<CurrentManyRequest>,
    ) -> Result<Response<CurrentManyResponse>, Status> {
        self.with_metrics(
            CallMethod::CurrentMany,
            request,
            |arrival, request| async move {
                let table_version = request.table_version;
                let caller = arrival.caller.clone();
                let columns = self.serve_batch(arrival, request.into()).await?;
                Ok(CurrentManyResponse {
                    routes: self.0.shared.table.routes_since(table_version, &caller),
                    cluster_tag: self.0.shared.own_cluster.tag().0,
                    ..columns.expand_columns().into_current()
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
        let named = ClusterTag::from_metadata(request.metadata())?;
        if named != ClusterTag::NONE {
            // The response must name the cluster. Without a table no frame could be answered.
            let deadline = Instant::now() + PIPE_TABLE_TIMEOUT;
            self.0.slow_path.wait_for_table(deadline).await?;
            self.0.shared.own_cluster.check(named)?;
        }
        let caller = judged_caller(request.extensions())?.clone();
        let mut response = Response::new(PipeResponses::new(self.0.clone(), caller, request));
        self.0
            .shared
            .own_cluster
            .tag()
            .write_metadata(response.metadata_mut());
        Ok(response)
    }

    async fn raise_to(
        &self,
        request: Request<RaiseToRequest>,
    ) -> Result<Response<RaiseToResponse>, Status> {
        self.raise(request).await
    }

    /// Serves callers within this process; those of other processes get shared bytes, see
    /// [`crate::api::routes_service`].
    async fn routes(
        &self,
        request: Request<RoutesRequest>,
    ) -> Result<Response<RoutingTable>, Status> {
        self.with_metrics(CallMethod::Routes, request, |arrival, request| async move {
            let table = self.0.table_for(&request, arrival.deadline).await?;
            let delta = visible_delta(&table, request.base, &arrival.caller);
            Ok(RoutingTable::from(&delta))
        })
        .await
    }
}

impl LocalSequence for SequenceService {
    fn access(&self) -> &Access {
        &self.0.access
    }

    fn try_next(
        &self,
        caller: &Caller,
        namespace: &str,
        key: KeyRef<'_>,
        count: u32,
    ) -> Option<NextResponse> {
        let target = GrantTarget::Namespace(namespace_name(namespace, key));
        if !caller.has_right_on(NamespaceRight::Next, target) {
            return None;
        }
        let at = Instant::now();
        let wanted = TakeArgs {
            count: NonZeroU32::new(count)?,
            floor: 0,
            epoch: 0,
        };
        let (range, epoch) = self.0.fast_path.try_one(namespace, key, wanted)?;
        self.0
            .shared
            .call_metrics
            .record_calls(CallMethod::Next, at.elapsed(), 1);
        Some(NextResponse {
            first: range.first,
            last: range.last,
            epoch: epoch.0,
            routes: None,
            cluster_tag: 0,
        })
    }

    async fn next_many_local(
        &self,
        caller: &Caller,
        request: NextManyRequest,
        share: &ConnectionQuota,
    ) -> Result<NextManyResponse, Status> {
        let arrival = RequestArrival::local(caller, share);
        let received_at = arrival.received_at;
        let answering = async { Ok(self.serve_batch(arrival, request.into()).await?.into_next()) };
        self.with_metrics_and_trace(CallMethod::NextMany, received_at, None, answering)
            .await
    }

    fn can_serve(&self) -> bool {
        self.0.shared.session.has_lease() && self.0.shared.table.version() > 0
    }

    async fn routing_table(
        &self,
        timeout: Duration,
    ) -> Result<Arc<routing_table::RoutingTable>, Status> {
        let received_at = Instant::now();
        let deadline = response_deadline(received_at, timeout);
        let waiting = async { Ok(self.0.slow_path.wait_for_table(deadline).await?) };
        self.with_metrics_and_trace(CallMethod::Routes, received_at, None, waiting)
            .await
    }
}

impl SequenceService {
    /// Answers a gRPC call, and records its duration and its failure.
    pub(super) async fn with_metrics<T, U, F>(
        &self,
        method: CallMethod,
        request: Request<T>,
        answer: impl FnOnce(RequestArrival, T) -> F,
    ) -> Result<Response<U>, Status>
    where
        F: Future<Output = Result<U, Status>>,
    {
        let (arrival, request) = RequestArrival::split(request)?;
        let received_at = arrival.received_at;
        let trace = arrival.trace.as_ref();
        let span = trace.map(|trace| tracing::info_span!("call", ?method, trace = trace.id()));
        self.with_metrics_and_trace(method, received_at, span, answer(arrival, request))
            .await
            .map(Response::new)
    }

    /// Answers a gRPC or local request in its trace span, and records its duration and its failure.
    async fn with_metrics_and_trace<U>(
        &self,
        method: CallMethod,
        received_at: Instant,
        span: Option<Span>,
        answering: impl Future<Output = Result<U, Status>>,
    ) -> Result<U, Status> {
        let timer = self.0.shared.call_metrics.start_call(method, received_at);
        let result = match &span {
            None => answering.await,
            Some(span) => answering.instrument(span.clone()).await,
        };
        let duration = timer.stop();
        let result = result.map_err(|status| {
            let fault = RpcError::from_status(&status);
            self.0.shared.call_metrics.record_failure(fault.reason());
            Status::from(fault.with_cluster_tag(self.0.shared.own_cluster.tag()))
        });
        if let Some(span) = span {
            let error = result.as_ref().err().map(Status::message);
            span.in_scope(|| tracing::debug!(?duration, error, "answered"));
        }
        result
    }

    /// Returns the answers of all items; in short form, if memory had them all.
    async fn serve_batch(
        &self,
        arrival: RequestArrival,
        batch: BatchRequest,
    ) -> Result<BatchResponse, RpcError> {
        self.0.shared.own_cluster.check(batch.cluster)?;
        batch.check_right(&arrival.caller)?;
        batch.validate(self.0.batch_items_max)?;
        let FastPathResult {
            answers, missed, ..
        } = self.0.fast_path.try_batch(&batch);
        if missed.is_empty() {
            return Ok(answers);
        }
        let batch = batch.retain_items(&missed);
        let parts = self.0.clone();
        let missed_answers = async move {
            let RequestArrival {
                caller,
                deadline,
                share,
                trace,
                ..
            } = arrival;
            let call = batch.to_context(&caller, deadline, share, trace);
            answers.merge_missed(
                &missed,
                parts.slow_path.serve_batch_slow(&call, &batch).await,
            )
        };
        self.0
            .shared
            .background
            .run_for_call(missed_answers.in_current_span())
            .await
    }

    /// Answers an item on the slow path.
    async fn serve_slow(
        &self,
        caller: &Caller,
        call: RequestContext,
        item: RequestItem,
    ) -> Result<ItemAnswer, Status> {
        let (parts, table_version) = (self.0.clone(), call.table_version);
        let served = async move { parts.slow_path.serve_items(&call, &[item]).await.pop() };
        let answer = self
            .0
            .shared
            .background
            .run_for_call(served.in_current_span())
            .await?;
        let answer = answer.unwrap_or_else(|| Err(RpcError::new(Reason::Unspecified, "no answer")));
        Ok(answer.map_err(|fault| match fault.reason() {
            // The caller may decide better by a newer table.
            Reason::NotOwner | Reason::NoLease | Reason::NamespaceNotFound => {
                fault.with_routes(self.0.shared.table.routes_since(table_version, caller))
            }
            _ => fault,
        })?)
    }
}

fn mismatched_answer() -> Status {
    Status::internal("internal error: the answer does not match the request")
}
