//! The numbers' side of the scripted AllocSvr.

use std::sync::atomic::Ordering;

use seqsvr_proto::convert::RequestKey;
use seqsvr_proto::v1::pipe_response::Answer;
use seqsvr_proto::v1::sequence_server::Sequence;
use seqsvr_proto::v1::{self, Reason, pipe_request};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::*;

#[tonic::async_trait]
impl Sequence for FakeAlloc {
    async fn next(
        &self,
        request: Request<v1::NextRequest>,
    ) -> Result<Response<v1::NextResponse>, Status> {
        if let Some(timeout) = request.metadata().get("grpc-timeout") {
            self.grpc_timeouts
                .lock()
                .push(timeout.to_str().unwrap().to_owned());
        }
        let request = request.into_inner();
        self.next_requests.lock().push(request.clone());
        self.delay().await;
        let script = self.script.lock().next_error.clone();
        let fault = script.or_else(|| self.script.lock().next_errors.pop());
        if let Some(fault) = fault {
            return Err(fault.into());
        }
        let key = request.key_ref().unwrap();
        let guards = (request.floor.unwrap_or(0), request.epoch.unwrap_or(0));
        let taken = self.check_guards(&request.namespace, key, guards);
        let taken = taken.and_then(|()| {
            let count = request.count();
            let (first, last, epoch) = self.take_numbers(&request.namespace, key, count)?;
            Ok((
                first,
                last,
                self.script.lock().answer_epoch.unwrap_or(epoch),
            ))
        });
        let routes = self.attached_routes(request.table_version);
        match taken {
            Ok((first, last, epoch)) => Ok(Response::new(v1::NextResponse {
                first,
                last,
                epoch,
                routes,
                cluster_tag: 0,
            })),
            Err(fault) => Err(fault.with_routes(routes).into()),
        }
    }

    async fn next_many(
        &self,
        request: Request<v1::NextManyRequest>,
    ) -> Result<Response<v1::NextManyResponse>, Status> {
        let request = request.into_inner();
        self.batch_calls.fetch_add(1, Ordering::SeqCst);
        self.delay().await;
        let uids = request.uids.iter().map(|uid| Key::Uid(*uid));
        let keys: Vec<Key> = uids
            .chain(request.keys.iter().cloned().map(Key::Key))
            .collect();
        let mut reply = v1::NextManyResponse::default();
        for (i, key) in keys.iter().enumerate() {
            let flaky = self.script.lock().failing_once.remove(&key.to_string());
            let rejection = self.script.lock().rejecting_once.remove(&key.to_string());
            let taken = if let Some(fault) = rejection {
                Err(fault)
            } else if flaky {
                Err(RpcError::new(Reason::WindowExhausted, "the store is slow"))
            } else {
                let count = request.counts.get(i).copied().unwrap_or(1);
                self.take_numbers(&request.namespace, key.as_ref(), count)
            };
            let (first, last, epoch) = taken.unwrap_or_else(|fault| {
                reply.errors.push(fault.to_item_error(i));
                (0, 0, 0)
            });
            reply.firsts.push(first);
            reply.lasts.push(last);
            reply.epochs.push(epoch);
        }
        if self.script.lock().drops_last_number {
            reply.firsts.pop();
        }
        reply.routes = self.attached_routes(request.table_version);
        Ok(Response::new(reply))
    }

    async fn current(
        &self,
        request: Request<v1::CurrentRequest>,
    ) -> Result<Response<v1::CurrentResponse>, Status> {
        let request = request.into_inner();
        let key = key_text(request.key_ref().unwrap());
        let value = self.shared.numbers.lock().get(&(1, key)).copied();
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
            cluster_tag: 0,
        }))
    }

    async fn current_many(
        &self,
        request: Request<v1::CurrentManyRequest>,
    ) -> Result<Response<v1::CurrentManyResponse>, Status> {
        let request = request.into_inner();
        self.delay().await;
        let n = request.uids.len();
        let numbers = self.shared.numbers.lock();
        let value = |uid: &u64| numbers.get(&(1, uid.to_string())).copied().unwrap_or(0);
        Ok(Response::new(v1::CurrentManyResponse {
            kinds: vec![v1::CurrentKind::Exact.into(); n],
            values: request.uids.iter().map(value).collect(),
            epochs: vec![1; n],
            ..v1::CurrentManyResponse::default()
        }))
    }

    type PipeStream = ReceiverStream<Result<v1::PipeResponse, Status>>;

    /// Frames of one item are taken as calls of Next and Current, others as of NextMany and
    /// CurrentMany.
    async fn pipe(
        &self,
        request: Request<Streaming<v1::PipeRequest>>,
    ) -> Result<Response<Self::PipeStream>, Status> {
        let (answers, out) = tokio::sync::mpsc::channel(64);
        let (node, mut frames) = (self.clone(), request.into_inner());
        self.pipes_opened.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(async move {
            let mut received = 0;
            while let Ok(Some(frame)) = frames.message().await {
                received += 1;
                node.frames_received.fetch_add(1, Ordering::SeqCst);
                if std::mem::take(&mut node.script.lock().breaks_pipe) {
                    let broken = Status::unavailable("broken");
                    let _ = answers.send(Err(broken)).await;
                    return;
                }
                if node.script.lock().closes_after == Some(received) {
                    let go_away = v1::PipeResponse {
                        go_away: true,
                        ..v1::PipeResponse::default()
                    };
                    let _ = answers.send(Ok(go_away)).await;
                }
                let (node, answers) = (node.clone(), answers.clone());
                tokio::spawn(async move {
                    let answer = node.answer_frame(frame).await;
                    let mut second_part = node.script.lock().second_part.clone();
                    let parts = match second_part {
                        None => vec![answer],
                        Some(_) => split_first_item(answer),
                    };
                    for (i, part) in parts.into_iter().enumerate() {
                        if i > 0
                            && let Some(second_part) = &mut second_part
                        {
                            let _ = second_part.wait_for(|now| *now).await;
                        }
                        let _ = answers.send(Ok(part)).await;
                    }
                });
            }
        });
        let mut response = Response::new(ReceiverStream::new(out));
        let names = self.script.lock().cluster_tag;
        names.write_metadata(response.metadata_mut());
        Ok(response)
    }

    async fn raise_to(
        &self,
        request: Request<v1::RaiseToRequest>,
    ) -> Result<Response<v1::RaiseToResponse>, Status> {
        let request = request.into_inner();
        let mut numbers = self.shared.numbers.lock();
        let last = numbers
            .entry((1, key_text(request.key_ref().unwrap())))
            .or_default();
        *last = (*last).max(request.value);
        Ok(Response::new(v1::RaiseToResponse {
            value: *last,
            epoch: 1,
            cluster_tag: self.script.lock().cluster_tag.0,
            ..v1::RaiseToResponse::default()
        }))
    }

    async fn routes(
        &self,
        request: Request<v1::RoutesRequest>,
    ) -> Result<Response<v1::RoutingTable>, Status> {
        let base = request.into_inner().base;
        self.fetched_bases.lock().push(base);
        let gate = self.script.lock().routes_gate.clone();
        if let Some(mut gate) = gate {
            let _ = gate.wait_for(|is_open| *is_open).await;
        }
        let delta = self.table.lock().delta_since(base);
        Ok(Response::new(v1::RoutingTable::from(&delta)))
    }
}

impl FakeAlloc {
    async fn answer_frame(&self, frame: v1::PipeRequest) -> v1::PipeResponse {
        let id = frame.id;
        let timeout = frame.timeout_ms;
        let answer = match frame.operation.unwrap() {
            pipe_request::Operation::Next(many) if many.uids.len() + many.keys.len() == 1 => {
                let mut one = Request::new(to_single_request(&many));
                one.set_timeout(Duration::from_millis(u64::from(timeout)));
                Answer::Next(match self.next(one).await {
                    Ok(reply) => {
                        let reply = reply.into_inner();
                        v1::NextManyResponse {
                            firsts: vec![reply.first],
                            lasts: vec![reply.last],
                            epochs: vec![reply.epoch],
                            errors: Vec::new(),
                            routes: reply.routes,
                            cluster_tag: 0,
                        }
                    }
                    Err(status) => {
                        let fault = RpcError::from_status(&status);
                        v1::NextManyResponse {
                            firsts: vec![0],
                            lasts: vec![0],
                            epochs: vec![0],
                            errors: vec![fault.to_item_error(0)],
                            routes: fault.detail.routes,
                            cluster_tag: 0,
                        }
                    }
                })
            }
            pipe_request::Operation::Next(many) => Answer::Next(
                self.next_many(Request::new(many))
                    .await
                    .unwrap()
                    .into_inner(),
            ),
            pipe_request::Operation::Current(many) => {
                let reply = self.current_many(Request::new(many)).await.unwrap();
                Answer::Current(reply.into_inner())
            }
            pipe_request::Operation::Ids(ids) => self.answer_ids(ids).await,
        };
        v1::PipeResponse {
            id,
            answer: Some(answer),
            ..v1::PipeResponse::default()
        }
    }
}

/// Splits an answer into its first item and the others.
fn split_first_item(whole: v1::PipeResponse) -> Vec<v1::PipeResponse> {
    let Some(Answer::Next(next)) = &whole.answer else {
        return vec![whole];
    };
    let n = next.firsts.len();
    let part = |from: usize, to: usize| v1::PipeResponse {
        id: whole.id,
        items: (from as u32..to as u32).collect(),
        answer: Some(Answer::Next(v1::NextManyResponse {
            firsts: next.firsts[from..to].to_vec(),
            lasts: next.lasts[from..to].to_vec(),
            epochs: next.epochs[from..to].to_vec(),
            ..v1::NextManyResponse::default()
        })),
        go_away: false,
    };
    match n {
        1 => vec![whole],
        n => vec![part(0, 1), part(1, n)],
    }
}

fn to_single_request(many: &v1::NextManyRequest) -> v1::NextRequest {
    v1::NextRequest {
        namespace: many.namespace.clone(),
        key_kind: Some(match many.uids.first() {
            Some(uid) => v1::next_request::KeyKind::Uid(*uid),
            None => v1::next_request::KeyKind::Key(many.keys[0].clone()),
        }),
        count: Some(many.counts.first().copied().unwrap_or(1)),
        floor: many.floors.first().copied(),
        epoch: many.epochs.first().copied(),
        strict: many.strict,
        table_version: many.table_version,
        forwarded: many.forwarded,
        cluster_tag: 0,
    }
}
