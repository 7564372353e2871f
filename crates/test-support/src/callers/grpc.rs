//! A plain gRPC caller without a routing table. It always calls an AllocSvr that does not own the
//! key, so that every call is forwarded.

use std::collections::BTreeMap;
use std::time::Duration;

use seqsvr_check::CallAnswer;
use seqsvr_client::{Client, Key};
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{
    CurrentKind, CurrentManyRequest, CurrentRequest, ItemError, NextManyRequest, NextRequest,
    RaiseToRequest,
};
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use super::test_call::{ItemOutcome, TestCall, next_answer};
use crate::test_keys::TestKey;

/// Timeout of a call. The server's own deadline of 5 s expires first unless the server is down.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);

/// Caller of these nodes. It sends each item to a node that does not own it.
#[derive(Clone)]
pub struct GrpcCaller {
    nodes: Vec<(String, SequenceClient<Channel>)>,
    /// Source of the routes, to find a node that is not the owner.
    routes: Client,
}

impl GrpcCaller {
    /// Creates a caller. `routes` should be a client that also makes calls, so that its table is up
    /// to date.
    pub fn new(addresses: &[String], routes: Client) -> GrpcCaller {
        let node = |address: &String| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let channel = endpoint.expect("a good address").connect_lazy();
            (address.clone(), SequenceClient::new(channel))
        };
        GrpcCaller {
            nodes: addresses.iter().map(node).collect(),
            routes,
        }
    }

    /// Groups the items by a node that does not own them.
    pub(crate) async fn split_by_non_owner<'a>(
        &self,
        items: &[&'a TestKey],
    ) -> Vec<(usize, Vec<&'a TestKey>)> {
        let table = self.routes.routes().await.ok();
        let owner = |test_key: &TestKey| {
            let table = table.as_ref()?;
            let namespace = table.namespace(test_key.namespace)?;
            let (_, slot) = table.locate(namespace, test_key.key.as_ref()).ok()?;
            Some(table.route(slot)?.owner.as_ref()?.address.clone())
        };
        let mut parts: BTreeMap<usize, Vec<&TestKey>> = BTreeMap::new();
        for &test_key in items {
            let owner = owner(test_key);
            let is_wrong = |(address, _): &(String, _)| Some(address) != owner.as_ref();
            let node = self.nodes.iter().position(is_wrong);
            parts
                .entry(node.expect("two nodes"))
                .or_default()
                .push(test_key);
        }
        parts.into_iter().collect()
    }

    pub(crate) async fn call(
        &self,
        node: usize,
        call: TestCall,
        items: &[&TestKey],
    ) -> Vec<ItemOutcome> {
        let client = self.nodes[node].1.clone();
        let answered = timeout(CALL_TIMEOUT, send_request(client, call, items)).await;
        let failed = |text: String| items.iter().map(|_| Err(text.clone())).collect();
        match answered {
            Ok(Ok(results)) => results,
            Ok(Err(status)) => failed(status.to_string()),
            Err(_) => failed(format!("no answer within {CALL_TIMEOUT:?}")),
        }
    }
}

async fn send_request(
    mut client: SequenceClient<Channel>,
    call: TestCall,
    items: &[&TestKey],
) -> std::result::Result<Vec<ItemOutcome>, Status> {
    let namespace = items[0].namespace.to_owned();
    let uids = items.iter().filter_map(|item| match item.key {
        Key::Uid(uid) => Some(uid),
        Key::Key(_) => None,
    });
    let keys = items.iter().filter_map(|item| match &item.key {
        Key::Uid(_) => None,
        Key::Key(key) => Some(key.clone()),
    });
    match (call, items) {
        (TestCall::Next(count), [one]) => {
            let request = NextRequest {
                namespace,
                key_kind: Some(one.key.clone().into()),
                count: Some(count),
                ..NextRequest::default()
            };
            let response = client.next(request).await?.into_inner();
            Ok(vec![Ok((
                Some(response.epoch),
                next_answer(response.first, response.last, one),
            ))])
        }
        (TestCall::Next(count), _) => {
            let request = NextManyRequest {
                namespace,
                uids: uids.collect(),
                keys: keys.collect(),
                counts: vec![count; items.len()],
                ..NextManyRequest::default()
            };
            let response = client.next_many(request).await?.into_inner();
            let answers = items.iter().enumerate().map(|(i, s)| {
                Ok((
                    Some(response.epochs[i]),
                    next_answer(response.firsts[i], response.lasts[i], s),
                ))
            });
            Ok(with_errors(answers.collect(), &response.errors))
        }
        (TestCall::Current, [one]) => {
            let request = CurrentRequest {
                namespace,
                key_kind: Some(one.key.clone().into()),
                ..CurrentRequest::default()
            };
            let response = client.current(request).await?.into_inner();
            Ok(vec![current_outcome(
                response.kind(),
                response.value,
                response.epoch,
            )])
        }
        (TestCall::Current, _) => {
            let request = CurrentManyRequest {
                namespace,
                uids: uids.collect(),
                keys: keys.collect(),
                ..CurrentManyRequest::default()
            };
            let response = client.current_many(request).await?.into_inner();
            let kinds = response.kinds().zip(&response.values).zip(&response.epochs);
            let answers = kinds.map(|((kind, value), epoch)| current_outcome(kind, *value, *epoch));
            Ok(with_errors(answers.collect(), &response.errors))
        }
        (TestCall::RaiseTo(value), _) => {
            let request = RaiseToRequest {
                namespace,
                key_kind: Some(items[0].key.clone().into()),
                value,
                ..RaiseToRequest::default()
            };
            let response = client.raise_to(request).await?.into_inner();
            Ok(vec![Ok((
                Some(response.epoch),
                CallAnswer::RaiseTo {
                    requested: value,
                    to: response.value,
                },
            ))])
        }
    }
}

fn current_outcome(kind: CurrentKind, value: u64, epoch: u64) -> ItemOutcome {
    match kind {
        CurrentKind::Exact => Ok((Some(epoch), CallAnswer::Exact(value))),
        CurrentKind::Never => Ok((Some(epoch), CallAnswer::Never)),
        CurrentKind::AtMost => Ok((Some(epoch), CallAnswer::AtMost(value))),
        CurrentKind::Unspecified => Err("an answer without a kind".to_owned()),
    }
}

fn with_errors(mut results: Vec<ItemOutcome>, errors: &[ItemError]) -> Vec<ItemOutcome> {
    for error in errors {
        results[error.index as usize] = Err(error.message.clone());
    }
    results
}
