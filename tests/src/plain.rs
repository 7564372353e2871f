//! A plain gRPC caller without a routing table. It always calls an AllocSvr that does not own the
//! key, so that every call is forwarded.

use std::collections::BTreeMap;
use std::time::Duration;

use seqsvr_check::Answer;
use seqsvr_client::{Client, Key};
use seqsvr_proto::v1::sequence_client::SequenceClient;
use seqsvr_proto::v1::{
    CurrentKind, CurrentManyRequest, CurrentRequest, ItemError, NextManyRequest, NextRequest,
    RaiseToRequest, current_request, next_request, raise_to_request,
};
use tokio::time::timeout;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

use crate::caller::{Ask, Result, next};
use crate::subject::Subject;

/// Timeout of a call. The server's own deadline of 5 s expires first unless the server is down.
const PATIENCE: Duration = Duration::from_secs(8);

/// Caller of these nodes. It sends each item to a node that does not own it.
#[derive(Clone)]
pub struct Plain {
    nodes: Vec<(String, SequenceClient<Channel>)>,
    /// Source of the routes, to find a node that is not the owner.
    routes: Client,
}

impl Plain {
    /// Creates a caller. `routes` should be a client that also makes calls, so that its table is up
    /// to date.
    pub fn new(addresses: &[String], routes: Client) -> Plain {
        let node = |address: &String| {
            let endpoint = Endpoint::from_shared(format!("http://{address}"));
            let channel = endpoint.expect("a good address").connect_lazy();
            (address.clone(), SequenceClient::new(channel))
        };
        Plain {
            nodes: addresses.iter().map(node).collect(),
            routes,
        }
    }

    /// Groups the items by a node that does not own them.
    pub(crate) async fn part<'a>(&self, items: &[&'a Subject]) -> Vec<(usize, Vec<&'a Subject>)> {
        let table = self.routes.routes().await.ok();
        let owner = |subject: &Subject| {
            let table = table.as_ref()?;
            let namespace = table.namespace(subject.namespace)?;
            let (_, slot) = table.place(namespace, subject.key.as_ref()).ok()?;
            Some(table.route(slot)?.owner.as_ref()?.address.clone())
        };
        let mut parts: BTreeMap<usize, Vec<&Subject>> = BTreeMap::new();
        for &subject in items {
            let owner = owner(subject);
            let is_wrong = |(address, _): &(String, _)| Some(address) != owner.as_ref();
            let node = self.nodes.iter().position(is_wrong);
            parts
                .entry(node.expect("two nodes"))
                .or_default()
                .push(subject);
        }
        parts.into_iter().collect()
    }

    pub(crate) async fn ask(&self, node: usize, ask: Ask, items: &[&Subject]) -> Vec<Result> {
        let client = self.nodes[node].1.clone();
        let asked = timeout(PATIENCE, call(client, ask, items)).await;
        let failed = |text: String| items.iter().map(|_| Err(text.clone())).collect();
        match asked {
            Ok(Ok(results)) => results,
            Ok(Err(status)) => failed(status.to_string()),
            Err(_) => failed(format!("no answer within {PATIENCE:?}")),
        }
    }
}

async fn call(
    mut client: SequenceClient<Channel>,
    ask: Ask,
    items: &[&Subject],
) -> std::result::Result<Vec<Result>, Status> {
    let namespace = items[0].namespace.to_owned();
    let uids = items.iter().filter_map(|item| match item.key {
        Key::Uid(uid) => Some(uid),
        Key::Key(_) => None,
    });
    let keys = items.iter().filter_map(|item| match &item.key {
        Key::Uid(_) => None,
        Key::Key(key) => Some(key.clone()),
    });
    match (ask, items) {
        (Ask::Next(count), [one]) => {
            let request = NextRequest {
                namespace,
                key_kind: Some(match &one.key {
                    Key::Uid(uid) => next_request::KeyKind::Uid(*uid),
                    Key::Key(key) => next_request::KeyKind::Key(key.clone()),
                }),
                count: Some(count),
                ..NextRequest::default()
            };
            let r = client.next(request).await?.into_inner();
            Ok(vec![Ok((Some(r.epoch), next(r.first, r.last, one)))])
        }
        (Ask::Next(count), _) => {
            let request = NextManyRequest {
                namespace,
                uids: uids.collect(),
                keys: keys.collect(),
                counts: vec![count; items.len()],
                ..NextManyRequest::default()
            };
            let r = client.next_many(request).await?.into_inner();
            let answers = items
                .iter()
                .enumerate()
                .map(|(i, s)| Ok((Some(r.epochs[i]), next(r.firsts[i], r.lasts[i], s))));
            Ok(with_errors(answers.collect(), &r.errors))
        }
        (Ask::Current, [one]) => {
            let request = CurrentRequest {
                namespace,
                key_kind: Some(match &one.key {
                    Key::Uid(uid) => current_request::KeyKind::Uid(*uid),
                    Key::Key(key) => current_request::KeyKind::Key(key.clone()),
                }),
                ..CurrentRequest::default()
            };
            let r = client.current(request).await?.into_inner();
            Ok(vec![current(r.kind(), r.value, r.epoch)])
        }
        (Ask::Current, _) => {
            let request = CurrentManyRequest {
                namespace,
                uids: uids.collect(),
                keys: keys.collect(),
                ..CurrentManyRequest::default()
            };
            let r = client.current_many(request).await?.into_inner();
            let kinds = r.kinds().zip(&r.values).zip(&r.epochs);
            let answers = kinds.map(|((kind, value), epoch)| current(kind, *value, *epoch));
            Ok(with_errors(answers.collect(), &r.errors))
        }
        (Ask::RaiseTo(asked), _) => {
            let request = RaiseToRequest {
                namespace,
                key_kind: Some(match &items[0].key {
                    Key::Uid(uid) => raise_to_request::KeyKind::Uid(*uid),
                    Key::Key(key) => raise_to_request::KeyKind::Key(key.clone()),
                }),
                value: asked,
                ..RaiseToRequest::default()
            };
            let r = client.raise_to(request).await?.into_inner();
            Ok(vec![Ok((
                Some(r.epoch),
                Answer::RaiseTo { asked, to: r.value },
            ))])
        }
    }
}

fn current(kind: CurrentKind, value: u64, epoch: u64) -> Result {
    match kind {
        CurrentKind::Exact => Ok((Some(epoch), Answer::Exact(value))),
        CurrentKind::Never => Ok((Some(epoch), Answer::Never)),
        CurrentKind::AtMost => Ok((Some(epoch), Answer::AtMost(value))),
        CurrentKind::Unspecified => Err("an answer without a kind".to_owned()),
    }
}

fn with_errors(mut results: Vec<Result>, errors: &[ItemError]) -> Vec<Result> {
    for error in errors {
        results[error.index as usize] = Err(error.message.clone());
    }
    results
}
