//! The public contract: requests are checked and turned into items, answers into responses.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqsvr_core::route::KeyRef;
use seqsvr_proto::convert::Keyed;
use seqsvr_proto::error::Fault;
use seqsvr_proto::limits::{DEADLINE_DEFAULT, NUMBERS_MAX};
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{
    CurrentKind, CurrentManyRequest, CurrentManyResponse, CurrentRequest, CurrentResponse,
    ItemError, NextManyRequest, NextManyResponse, NextRequest, NextResponse, RaiseToRequest,
    RaiseToResponse, Reason, RoutesRequest, RoutingTable,
};
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status};

use crate::ask::{Answer, Ask, Call, Item, ItemKey};
use crate::node::Node;

/// Longest a caller is kept waiting, whatever it asks for.
const DEADLINE_MAX: Duration = Duration::from_secs(60);

/// The gRPC service over a node.
pub(crate) struct SequenceService(pub(crate) Arc<Node>);

#[tonic::async_trait]
impl Sequence for SequenceService {
    async fn next(&self, request: Request<NextRequest>) -> Result<Response<NextResponse>, Status> {
        let deadline = deadline(request.metadata());
        let request = request.into_inner();
        let count = self.count(request.count.unwrap_or(1))?;
        let ask = Ask::Next {
            count,
            floor: request.floor.unwrap_or(0),
        };
        let item = Item {
            key: key(request.key_ref())?,
            ask,
            epoch: request.epoch.unwrap_or(0),
        };
        let call = Call {
            namespace: &request.namespace,
            deadline,
            forwarded: request.forwarded,
            table_version: request.table_version,
            strict: request.strict,
        };
        match self.one(&call, item).await? {
            Answer::Numbers { first, last, epoch } => Ok(Response::new(NextResponse {
                first,
                last,
                epoch: epoch.0,
                routes: self.0.table.routes_for(request.table_version),
            })),
            _ => Err(mixed()),
        }
    }

    async fn next_many(
        &self,
        request: Request<NextManyRequest>,
    ) -> Result<Response<NextManyResponse>, Status> {
        let deadline = deadline(request.metadata());
        let request = request.into_inner();
        let keys = self.keys(request.uids, request.keys)?;
        let n = keys.len();
        column("counts", request.counts.len(), n)?;
        column("floors", request.floors.len(), n)?;
        column("epochs", request.epochs.len(), n)?;
        let mut errors = Vec::new();
        let mut items = Vec::with_capacity(n);
        let mut origin = Vec::with_capacity(n);
        let mut total = 0u64;
        for (i, key) in keys.into_iter().enumerate() {
            let count = request.counts.get(i).copied().unwrap_or(1);
            let (floor, epoch) = (
                request.floors.get(i).copied().unwrap_or(0),
                request.epochs.get(i).copied().unwrap_or(0),
            );
            match self.count(count) {
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
        let call = Call {
            namespace: &request.namespace,
            deadline,
            forwarded: request.forwarded,
            table_version: request.table_version,
            strict: request.strict,
        };
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
        response.routes = self.0.table.routes_for(request.table_version);
        Ok(Response::new(response))
    }

    async fn current(
        &self,
        request: Request<CurrentRequest>,
    ) -> Result<Response<CurrentResponse>, Status> {
        let deadline = deadline(request.metadata());
        let request = request.into_inner();
        let item = Item {
            key: key(request.key_ref())?,
            ask: Ask::Current,
            epoch: request.epoch.unwrap_or(0),
        };
        let call = Call {
            namespace: &request.namespace,
            deadline,
            forwarded: request.forwarded,
            table_version: request.table_version,
            strict: request.strict,
        };
        match self.one(&call, item).await? {
            Answer::Current { kind, value, epoch } => Ok(Response::new(CurrentResponse {
                kind: kind.into(),
                value,
                epoch: epoch.0,
                routes: self.0.table.routes_for(request.table_version),
            })),
            _ => Err(mixed()),
        }
    }

    async fn current_many(
        &self,
        request: Request<CurrentManyRequest>,
    ) -> Result<Response<CurrentManyResponse>, Status> {
        let deadline = deadline(request.metadata());
        let request = request.into_inner();
        let keys = self.keys(request.uids, request.keys)?;
        column("epochs", request.epochs.len(), keys.len())?;
        let item = |(i, key)| Item {
            key,
            ask: Ask::Current,
            epoch: request.epochs.get(i).copied().unwrap_or(0),
        };
        let items: Vec<Item> = keys.into_iter().enumerate().map(item).collect();
        let call = Call {
            namespace: &request.namespace,
            deadline,
            forwarded: request.forwarded,
            table_version: request.table_version,
            strict: request.strict,
        };
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
        response.routes = self.0.table.routes_for(request.table_version);
        Ok(Response::new(response))
    }

    async fn raise_to(
        &self,
        request: Request<RaiseToRequest>,
    ) -> Result<Response<RaiseToResponse>, Status> {
        let deadline = deadline(request.metadata());
        let request = request.into_inner();
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
        let call = Call {
            namespace: &request.namespace,
            deadline,
            forwarded: request.forwarded,
            table_version: request.table_version,
            strict: false,
        };
        match self.one(&call, item).await? {
            Answer::Raised { value, epoch } => Ok(Response::new(RaiseToResponse {
                value,
                epoch: epoch.0,
                routes: self.0.table.routes_for(request.table_version),
            })),
            _ => Err(mixed()),
        }
    }

    async fn routes(
        &self,
        request: Request<RoutesRequest>,
    ) -> Result<Response<RoutingTable>, Status> {
        let deadline = deadline(request.metadata());
        let base = request.into_inner().base;
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
        Ok(answer.unwrap_or_else(|| Err(Fault::new(Reason::Unspecified, "no answer")))?)
    }

    fn keys(&self, uids: Vec<u64>, keys: Vec<Bytes>) -> Result<Vec<ItemKey>, Fault> {
        let keys: Vec<ItemKey> = match (uids.is_empty(), keys.is_empty()) {
            (true, true) => {
                return Err(Fault::new(
                    Reason::Invalid,
                    "the request has no items; give uids or keys",
                ));
            }
            (false, false) => {
                return Err(Fault::new(
                    Reason::Invalid,
                    "the request has both uids and keys; send two requests",
                ));
            }
            (false, true) => uids.into_iter().map(ItemKey::Uid).collect(),
            (true, false) => keys.into_iter().map(ItemKey::Key).collect(),
        };
        if keys.len() > self.0.items_max {
            let text = format!(
                "one request takes at most {} items, not {}; split it",
                self.0.items_max,
                keys.len()
            );
            return Err(Fault::new(Reason::TooMany, text).with_code(Code::InvalidArgument));
        }
        Ok(keys)
    }

    /// A count within the contract's bounds. A namespace's own bound is checked with its window.
    fn count(&self, count: u32) -> Result<NonZeroU32, Fault> {
        let max = seqsvr_core::geometry::COUNT_MAX;
        match NonZeroU32::new(count).filter(|c| c.get() <= max) {
            Some(count) => Ok(count),
            None => {
                let text = format!("count must be 1 to {max}, not {count}");
                Err(Fault::new(
                    if count == 0 {
                        Reason::Invalid
                    } else {
                        Reason::TooMany
                    },
                    text,
                )
                .with_code(Code::InvalidArgument))
            }
        }
    }
}

/// When the answer must be under way: shortly before the caller's own deadline.
fn deadline(metadata: &MetadataMap) -> Instant {
    let asked = metadata
        .get("grpc-timeout")
        .and_then(|v| v.to_str().ok())
        .and_then(grpc_timeout);
    let total = asked.unwrap_or(DEADLINE_DEFAULT).min(DEADLINE_MAX);
    Instant::now() + total - (total / 10).min(Duration::from_millis(50))
}

/// Reads `grpc-timeout`: up to 8 digits and a unit.
fn grpc_timeout(value: &str) -> Option<Duration> {
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    let n: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(n * 3600)),
        "M" => Some(Duration::from_secs(n * 60)),
        "S" => Some(Duration::from_secs(n)),
        "m" => Some(Duration::from_millis(n)),
        "u" => Some(Duration::from_micros(n)),
        "n" => Some(Duration::from_nanos(n)),
        _ => None,
    }
}

fn key(key: Option<KeyRef<'_>>) -> Result<ItemKey, Fault> {
    match key {
        Some(KeyRef::Uid(uid)) => Ok(ItemKey::Uid(uid.0)),
        Some(KeyRef::Key(key)) => Ok(ItemKey::Key(Bytes::copy_from_slice(key))),
        None => Err(Fault::new(
            Reason::Invalid,
            "the request names neither a uid nor a key",
        )),
    }
}

fn item_error(index: usize, fault: &Fault) -> ItemError {
    ItemError {
        index: index as u32,
        code: fault.code as i32,
        reason: fault.reason().into(),
        message: fault.message.clone(),
    }
}

/// A column is empty or has an entry for each item.
fn column(name: &str, entries: usize, items: usize) -> Result<(), Status> {
    if entries == 0 || entries == items {
        return Ok(());
    }
    Err(invalid(format!(
        "{name} has {entries} entries for {items} items; leave it empty or give one an item"
    )))
}

fn invalid(text: String) -> Status {
    Fault::new(Reason::Invalid, text).into()
}

fn mixed() -> Status {
    Status::internal("an item was answered by another kind of answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grpc_timeouts() {
        assert_eq!(grpc_timeout("5S"), Some(Duration::from_secs(5)));
        assert_eq!(grpc_timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(
            grpc_timeout("99999999H"),
            Some(Duration::from_secs(99_999_999 * 3600))
        );
        for bad in ["", "S", "5", "-5S", "123456789S", "5x", "é"] {
            assert_eq!(grpc_timeout(bad), None, "{bad}");
        }
    }
}
