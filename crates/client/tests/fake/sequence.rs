//! The numbers' side of the scripted AllocSvr.

use std::sync::atomic::Ordering;

use seqsvr_proto::convert::Keyed;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{self, Reason};
use tonic::{Request, Response, Status};

use super::*;

#[tonic::async_trait]
impl Sequence for Node {
    async fn next(
        &self,
        request: Request<v1::NextRequest>,
    ) -> Result<Response<v1::NextResponse>, Status> {
        if let Some(timeout) = request.metadata().get("grpc-timeout") {
            self.timeouts
                .lock()
                .push(timeout.to_str().unwrap().to_owned());
        }
        let request = request.into_inner();
        self.seen.lock().push(request.clone());
        self.delay().await;
        let fault = self.script.lock().faults.pop();
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        let key = request.key_ref().unwrap();
        let taken = self.take(&request.namespace, key, request.count());
        let routes = self.news(request.table_version);
        match taken {
            Ok((first, last, epoch)) => Ok(Response::new(v1::NextResponse {
                first,
                last,
                epoch,
                routes,
            })),
            Err(fault) => Err(fault.with_routes(routes).into()),
        }
    }

    async fn next_many(
        &self,
        request: Request<v1::NextManyRequest>,
    ) -> Result<Response<v1::NextManyResponse>, Status> {
        let request = request.into_inner();
        self.many.fetch_add(1, Ordering::SeqCst);
        self.delay().await;
        let uids = request.uids.iter().map(|uid| Key::Uid(*uid));
        let keys: Vec<Key> = uids
            .chain(request.keys.iter().cloned().map(Key::Key))
            .collect();
        let mut reply = v1::NextManyResponse::default();
        for (i, key) in keys.iter().enumerate() {
            let flaky = self.script.lock().flaky.remove(&key.to_string());
            let refused = self.script.lock().refused.remove(&key.to_string());
            let taken = if let Some(fault) = refused {
                Err(fault)
            } else if flaky {
                Err(Fault::new(Reason::NoWindow, "the store is slow"))
            } else {
                self.take(&request.namespace, key.as_ref(), request.counts[i])
            };
            let (first, last, epoch) = taken.unwrap_or_else(|fault| {
                reply.errors.push(v1::ItemError {
                    index: i as u32,
                    code: fault.code as i32,
                    reason: fault.detail.reason,
                    message: fault.message,
                    retry_after_ms: fault.detail.retry_after_ms,
                });
                (0, 0, 0)
            });
            reply.firsts.push(first);
            reply.lasts.push(last);
            reply.epochs.push(epoch);
        }
        reply.routes = self.news(request.table_version);
        Ok(Response::new(reply))
    }

    async fn current(
        &self,
        request: Request<v1::CurrentRequest>,
    ) -> Result<Response<v1::CurrentResponse>, Status> {
        let request = request.into_inner();
        let key = text(request.key_ref().unwrap());
        let value = self.world.numbers.lock().get(&(1, key)).copied();
        let kind = if value.is_some() {
            v1::CurrentKind::Exact
        } else {
            v1::CurrentKind::Never
        };
        Ok(Response::new(v1::CurrentResponse {
            kind: kind.into(),
            value: value.unwrap_or(0),
            epoch: 1,
            routes: None,
        }))
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        let request = request.into_inner();
        let n = request.uids.len();
        let numbers = self.world.numbers.lock();
        let value = |uid: &u64| numbers.get(&(1, uid.to_string())).copied().unwrap_or(0);
        Ok(Response::new(v1::CurrentManyResponse {
            kinds: vec![v1::CurrentKind::Exact.into(); n],
            values: request.uids.iter().map(value).collect(),
            epochs: vec![1; n],
            ..v1::CurrentManyResponse::default()
        }))
    }

    async fn raise_to(
        &self,
        request: Request<v1::RaiseToRequest>,
    ) -> Result<Response<v1::RaiseToResponse>, Status> {
        let request = request.into_inner();
        let mut numbers = self.world.numbers.lock();
        let last = numbers
            .entry((1, text(request.key_ref().unwrap())))
            .or_default();
        *last = (*last).max(request.value);
        Ok(Response::new(v1::RaiseToResponse {
            value: *last,
            epoch: 1,
            routes: None,
        }))
    }

    async fn routes(
        &self,
        request: Request<v1::RoutesRequest>,
    ) -> Result<Response<v1::RoutingTable>, Status> {
        let base = request.into_inner().base;
        self.fetched.lock().push(base);
        let delta = self.table.lock().delta_since(base);
        Ok(Response::new(v1::RoutingTable::from(&delta)))
    }
}
