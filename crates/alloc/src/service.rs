//! The public contract: requests become items, answers become responses.

use std::sync::Arc;

use seqsvr_proto::convert::Keyed;
use seqsvr_proto::error::Fault;
use seqsvr_proto::limits::NUMBERS_MAX;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{
    CurrentKind, CurrentManyRequest, CurrentManyResponse, CurrentRequest, CurrentResponse,
    ItemError, NextManyRequest, NextManyResponse, NextRequest, NextResponse, RaiseToRequest,
    RaiseToResponse, Reason, RoutesRequest, RoutingTable,
};
use tonic::{Code, Request, Response, Status};

use crate::ask::{Answer, Ask, Call, Item};
use crate::node::Node;
use crate::request::{Received, column, count, invalid, key, keys};

/// The gRPC service over a node.
pub(crate) struct SequenceService(pub(crate) Arc<Node>);

#[tonic::async_trait]
impl Sequence for SequenceService {
    async fn next(&self, request: Request<NextRequest>) -> Result<Response<NextResponse>, Status> {
        let (received, request) = Received::new(request);
        let count = count(request.count.unwrap_or(1))?;
        let ask = Ask::Next {
            count,
            floor: request.floor.unwrap_or(0),
        };
        let item = Item {
            key: key(request.key_ref())?,
            ask,
            epoch: request.epoch.unwrap_or(0),
        };
        let (version, forwarded) = (request.table_version, request.forwarded);
        let call = received.call(&request.namespace, version, forwarded, request.strict);
        match self.one(&call, item).await? {
            Answer::Numbers { first, last, epoch } => Ok(Response::new(NextResponse {
                first,
                last,
                epoch: epoch.0,
                routes: self.0.table.routes_for(version),
            })),
            _ => Err(mixed()),
        }
    }

    async fn next_many(
        &self,
        request: Request<NextManyRequest>,
    ) -> Result<Response<NextManyResponse>, Status> {
        let (received, request) = Received::new(request);
        let keys = keys(request.uids, request.keys, self.0.items_max)?;
        let n = keys.len();
        column("counts", request.counts.len(), n)?;
        column("floors", request.floors.len(), n)?;
        column("epochs", request.epochs.len(), n)?;
        let mut errors = Vec::new();
        let mut items = Vec::with_capacity(n);
        let mut origin = Vec::with_capacity(n);
        let mut total = 0u64;
        for (i, key) in keys.into_iter().enumerate() {
            let wanted = request.counts.get(i).copied().unwrap_or(1);
            let (floor, epoch) = (
                request.floors.get(i).copied().unwrap_or(0),
                request.epochs.get(i).copied().unwrap_or(0),
            );
            match count(wanted) {
                Ok(count) => {
                    total += u64::from(count.get());
                    items.push(Item {
                        key,
                        ask: Ask::Next { count, floor },
                        epoch,
                    });
                    origin.push(i);
                }
                Err(fault) => errors.push(item_error(i, &fault)),
            }
        }
        if total > NUMBERS_MAX {
            let text =
                format!("one NextMany takes at most {NUMBERS_MAX} numbers, not {total}; split it");
            return Err(Fault::new(Reason::TooMany, text)
                .with_code(Code::InvalidArgument)
                .into());
        }
        let (version, forwarded) = (request.table_version, request.forwarded);
        let call = received.call(&request.namespace, version, forwarded, request.strict);
        let mut response = NextManyResponse {
            firsts: vec![0; n],
            lasts: vec![0; n],
            epochs: vec![0; n],
            ..NextManyResponse::default()
        };
        for (answer, i) in self.0.serve(&call, &items).await.into_iter().zip(origin) {
            match answer {
                Ok(Answer::Numbers { first, last, epoch }) => {
                    (response.firsts[i], response.lasts[i], response.epochs[i]) =
                        (first, last, epoch.0);
                }
                Ok(_) => return Err(mixed()),
                Err(fault) => errors.push(item_error(i, &fault)),
            }
        }
        errors.sort_by_key(|e| e.index);
        response.errors = errors;
        response.routes = self.0.table.routes_for(version);
        Ok(Response::new(response))
    }

    async fn current(
        &self,
        request: Request<CurrentRequest>,
    ) -> Result<Response<CurrentResponse>, Status> {
        let (received, request) = Received::new(request);
        let item = Item {
            key: key(request.key_ref())?,
            ask: Ask::Current,
            epoch: request.epoch.unwrap_or(0),
        };
        let (version, forwarded) = (request.table_version, request.forwarded);
        let call = received.call(&request.namespace, version, forwarded, request.strict);
        match self.one(&call, item).await? {
            Answer::Current { kind, value, epoch } => Ok(Response::new(CurrentResponse {
                kind: kind.into(),
                value,
                epoch: epoch.0,
                routes: self.0.table.routes_for(version),
            })),
            _ => Err(mixed()),
        }
    }

    async fn current_many(
        &self,
        request: Request<CurrentManyRequest>,
    ) -> Result<Response<CurrentManyResponse>, Status> {
        let (received, request) = Received::new(request);
        let keys = keys(request.uids, request.keys, self.0.items_max)?;
        column("epochs", request.epochs.len(), keys.len())?;
        let item = |(i, key)| Item {
            key,
            ask: Ask::Current,
            epoch: request.epochs.get(i).copied().unwrap_or(0),
        };
        let items: Vec<Item> = keys.into_iter().enumerate().map(item).collect();
        let (version, forwarded) = (request.table_version, request.forwarded);
        let call = received.call(&request.namespace, version, forwarded, request.strict);
        let mut response = CurrentManyResponse::default();
        for (i, answer) in self.0.serve(&call, &items).await.into_iter().enumerate() {
            let (kind, value, epoch) = match answer {
                Ok(Answer::Current { kind, value, epoch }) => (kind, value, epoch.0),
                Ok(_) => return Err(mixed()),
                Err(fault) => {
                    response.errors.push(item_error(i, &fault));
                    (CurrentKind::Unspecified, 0, 0)
                }
            };
            response.kinds.push(kind.into());
            response.values.push(value);
            response.epochs.push(epoch);
        }
        response.routes = self.0.table.routes_for(version);
        Ok(Response::new(response))
    }

    async fn raise_to(
        &self,
        request: Request<RaiseToRequest>,
    ) -> Result<Response<RaiseToResponse>, Status> {
        let (received, request) = Received::new(request);
        if request.value == 0 || request.value > seqsvr_core::SEQ_MAX {
            return Err(invalid(format!(
                "RaiseTo takes a number from 1 to 2^63-1, not {}",
                request.value
            )));
        }
        let ask = Ask::RaiseTo {
            value: request.value,
            force: request.force,
        };
        let item = Item {
            key: key(request.key_ref())?,
            ask,
            epoch: request.epoch.unwrap_or(0),
        };
        let (version, forwarded) = (request.table_version, request.forwarded);
        let call = received.call(&request.namespace, version, forwarded, false);
        match self.one(&call, item).await? {
            Answer::Raised { value, epoch } => Ok(Response::new(RaiseToResponse {
                value,
                epoch: epoch.0,
                routes: self.0.table.routes_for(version),
            })),
            _ => Err(mixed()),
        }
    }

    async fn routes(
        &self,
        request: Request<RoutesRequest>,
    ) -> Result<Response<RoutingTable>, Status> {
        let (Received { deadline, .. }, RoutesRequest { base }) = Received::new(request);
        if base > self.0.table.version() {
            self.0.refresh(deadline).await;
        }
        let table = self.0.table_by(deadline).await?;
        Ok(Response::new(RoutingTable::from(&table.delta_since(base))))
    }
}

impl SequenceService {
    async fn one(&self, call: &Call<'_>, item: Item) -> Result<Answer, Status> {
        let answer = self.0.serve(call, &[item]).await.pop();
        let answer = answer.unwrap_or_else(|| Err(Fault::new(Reason::Unspecified, "no answer")));
        Ok(answer.map_err(|fault| match fault.reason() {
            // What else a caller may know better by a newer table.
            Reason::NotOwner | Reason::NoLease | Reason::NoSuchNamespace => {
                fault.with_routes(self.0.table.routes_for(call.table_version))
            }
            _ => fault,
        })?)
    }
}

fn item_error(index: usize, fault: &Fault) -> ItemError {
    ItemError {
        index: index as u32,
        code: fault.code as i32,
        reason: fault.reason().into(),
        message: fault.message.clone(),
        retry_after_ms: fault.detail.retry_after_ms,
    }
}

fn mixed() -> Status {
    Status::internal("an item was answered by another kind of answer")
}
