//! A caller of single methods, and what its calls show.

use http_body_util::BodyExt;
use prost::bytes::{Buf, BufMut, BytesMut};
use seqsvr_proto::v1::pipe_request::Operation;
use seqsvr_proto::v1::pipe_response::Answer;
use seqsvr_proto::v1::worker_result::Result as Outcome;
use seqsvr_proto::v1::{current_request, next_request, raise_to_request};
use tonic::codegen::http::HeaderMap;

use super::principal_cluster::{RAISED, TAKEN};
use super::*;

/// Returns a request of a method for the namespace or family with this name.
fn request_for(path: &str, name: &str) -> Vec<u8> {
    let (namespace, family) = (name.to_owned(), name.to_owned());
    let nonce = bytes::Bytes::from(vec![1; 16]);
    match path {
        "/seqsvr.v1.Sequence/Next" => v1::NextRequest {
            namespace,
            key_kind: Some(next_request::KeyKind::Uid(TAKEN)),
            ..v1::NextRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Sequence/NextMany" => next_many(name).encode_to_vec(),
        "/seqsvr.v1.Sequence/Current" => current(name).encode_to_vec(),
        "/seqsvr.v1.Sequence/CurrentMany" => v1::CurrentManyRequest {
            namespace,
            uids: vec![TAKEN],
            ..v1::CurrentManyRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Sequence/RaiseTo" => v1::RaiseToRequest {
            namespace,
            key_kind: Some(raise_to_request::KeyKind::Uid(RAISED)),
            value: 1,
            ..v1::RaiseToRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Ids/NextIds" => next_ids(name).encode_to_vec(),
        "/seqsvr.v1.Ids/AcquireWorker" => v1::AcquireWorkerRequest {
            family,
            holder: "pod-3".to_owned(),
            nonce,
            ..v1::AcquireWorkerRequest::default()
        }
        .encode_to_vec(),
        "/seqsvr.v1.Ids/RenewWorkers" => v1::RenewWorkersRequest {
            renewals: vec![v1::Renewal {
                family,
                nonce,
                ..v1::Renewal::default()
            }],
        }
        .encode_to_vec(),
        "/seqsvr.v1.Ids/ReleaseWorker" => v1::ReleaseWorkerRequest {
            family,
            nonce,
            ..v1::ReleaseWorkerRequest::default()
        }
        .encode_to_vec(),
        _ => Vec::new(),
    }
}

fn next_many(name: &str) -> v1::NextManyRequest {
    v1::NextManyRequest {
        namespace: name.to_owned(),
        uids: vec![TAKEN],
        ..v1::NextManyRequest::default()
    }
}

fn next_ids(name: &str) -> v1::NextIdsRequest {
    v1::NextIdsRequest {
        family: name.to_owned(),
        ..v1::NextIdsRequest::default()
    }
}

pub(super) fn current(name: &str) -> v1::CurrentRequest {
    v1::CurrentRequest {
        namespace: name.to_owned(),
        key_kind: Some(current_request::KeyKind::Uid(TAKEN)),
        ..v1::CurrentRequest::default()
    }
}

/// A caller: its connection, and what its calls show.
#[derive(Clone)]
pub(super) struct Shown {
    pub(super) channel: Channel,
    pub(super) authorization: Vec<String>,
}

impl Shown {
    /// Calls a method with these messages. Returns its status and the messages of its answer.
    pub(super) async fn call(
        &self,
        path: &str,
        messages: &[Vec<u8>],
    ) -> (Status, Vec<bytes::Bytes>) {
        let mut body = BytesMut::new();
        for message in messages {
            body.put_u8(0);
            body.put_u32(message.len() as u32);
            body.put_slice(message);
        }
        let mut request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .body(Body::new(Full::new(body.freeze())))
            .unwrap();
        for value in &self.authorization {
            let value = value.parse().unwrap();
            request.headers_mut().append(header::AUTHORIZATION, value);
        }
        let answering = async {
            let answer = self.channel.clone().oneshot(request).await.expect(path);
            let head = status_of(answer.headers());
            let collected = answer.into_body().collect().await.expect(path);
            let end = collected.trailers().and_then(status_of);
            (head.or(end).expect(path), collected.to_bytes())
        };
        let (status, mut data) = timeout(TEST_TIMEOUT, answering).await.expect(path);
        let mut messages = Vec::new();
        while !data.is_empty() {
            data.advance(1);
            let bytes = data.get_u32() as usize;
            messages.push(data.split_to(bytes));
        }
        (status, messages)
    }

    /// Calls a unary method. A renewal that was denied counts as a call that was.
    pub(super) async fn call_for(&self, path: &str, name: &str) -> Status {
        let (status, answers) = self.call(path, &[request_for(path, name)]).await;
        if path != "/seqsvr.v1.Ids/RenewWorkers" || status.code() != Code::Ok {
            return status;
        }
        let answer = v1::RenewWorkersResponse::decode(&*answers[0]).unwrap();
        match answer.results[0].result.clone().unwrap() {
            Outcome::Error(error) => RpcError::from_item_error(error).into(),
            _ => status,
        }
    }

    /// Sends a frame of each kind for these names in one Pipe. Returns the errors in their order.
    pub(super) async fn pipe(&self, names: &[&str]) -> Vec<Option<RpcError>> {
        let frames = names.iter().flat_map(|name| {
            let current = v1::CurrentManyRequest {
                namespace: (*name).to_owned(),
                uids: vec![TAKEN],
                ..v1::CurrentManyRequest::default()
            };
            [
                Operation::Next(next_many(name)),
                Operation::Current(current),
                Operation::Ids(next_ids(name)),
            ]
        });
        let frame = |(id, operation)| v1::PipeRequest {
            id: id as u64,
            operation: Some(operation),
            ..v1::PipeRequest::default()
        };
        let frames: Vec<_> = frames.enumerate().map(frame).collect();
        let frames: Vec<_> = frames.iter().map(Message::encode_to_vec).collect();
        let (status, answers) = self.call("/seqsvr.v1.Sequence/Pipe", &frames).await;
        assert_eq!(status.code(), Code::Ok, "{status}");
        let mut errors = vec![None; frames.len()];
        let mut count = 0;
        for answer in answers {
            let answer = v1::PipeResponse::decode(&*answer).unwrap();
            let error = match answer.answer {
                Some(Answer::Rejected(error)) => Some(RpcError::from_item_error(error)),
                Some(Answer::Next(next)) => {
                    assert_eq!((next.errors.len(), next.firsts.len()), (0, 1));
                    None
                }
                Some(Answer::Current(current)) => {
                    assert_eq!((current.errors.len(), current.values.len()), (0, 1));
                    None
                }
                Some(Answer::Ids(ids)) => {
                    assert_eq!(ids.ids.len(), 1);
                    None
                }
                None => continue,
            };
            errors[answer.id as usize] = error;
            count += 1;
        }
        assert_eq!(count, frames.len(), "each frame is answered once");
        errors
    }

    /// Returns the names of the namespaces and families in its routes.
    pub(super) async fn visible_names(&self) -> Vec<String> {
        let request = v1::RoutesRequest::default().encode_to_vec();
        let (status, answers) = self.call("/seqsvr.v1.Sequence/Routes", &[request]).await;
        assert_eq!(status.code(), Code::Ok, "{status}");
        let table = v1::RoutingTable::decode(&*answers[0]).unwrap();
        let delta = seqsvr_core::routing_table::RoutingDelta::try_from(&table).unwrap();
        assert_eq!(delta.routes.len(), 4, "all slots");
        let namespaces = delta.namespaces.into_iter().map(|n| n.spec.name);
        let families = delta.families.into_iter();
        let families = families.map(|f| format!("@ids/{}", f.spec.name));
        namespaces.chain(families).collect()
    }
}

fn status_of(headers: &HeaderMap) -> Option<Status> {
    Status::from_header_map(headers)
}

/// Begins a call of a standard service. Returns its status, if the head of the answer has one.
pub(super) async fn begin(shown: &Shown, path: &str) -> Option<Status> {
    let mut request = Request::post(path)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Body::new(Full::new(Bytes::from_static(&[0; 5]))))
        .unwrap();
    for value in &shown.authorization {
        let value = value.parse().unwrap();
        request.headers_mut().append(header::AUTHORIZATION, value);
    }
    let calling = shown.channel.clone().oneshot(request);
    let answer = timeout(TEST_TIMEOUT, calling).await.expect(path);
    status_of(answer.expect(path).headers())
}
