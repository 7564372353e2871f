//! One interface for every kind of caller: the SDK, a plain gRPC caller that always calls an
//! AllocSvr that does not own the key, and clients of other protocols.

use seqsvr_check::CallAnswer;
use seqsvr_client::{Client, Current, CurrentKind, Error, IssuedRange, NextItem};

use super::endpoint::EndpointCaller;
use super::grpc::GrpcCaller;
use super::test_call::{ItemOutcome, TestCall, next_answer};
use crate::test_keys::TestKey;

/// A kind of caller.
#[derive(Clone)]
pub enum TestCaller {
    /// The SDK with its default deadline.
    Sdk(Client),
    /// A gRPC caller without routes.
    Grpc(GrpcCaller),
    /// A client of another protocol.
    Endpoint(EndpointCaller),
}

impl TestCaller {
    /// Returns whether the caller uses the Redis or the HTTP endpoint.
    pub fn uses_endpoint(&self) -> bool {
        matches!(self, TestCaller::Endpoint(_))
    }

    /// Splits items of one namespace into the requests that this caller must send, each with the
    /// index of the node to call.
    pub async fn split_by_node<'a>(&self, items: &[&'a TestKey]) -> Vec<(usize, Vec<&'a TestKey>)> {
        match self {
            TestCaller::Sdk(_) | TestCaller::Endpoint(_) => vec![(0, items.to_vec())],
            TestCaller::Grpc(plain) => plain.split_by_non_owner(items).await,
        }
    }

    /// Makes one call and returns one result for each item.
    pub async fn call(&self, node: usize, call: TestCall, items: &[&TestKey]) -> Vec<ItemOutcome> {
        match self {
            TestCaller::Sdk(client) => call_client(client, call, items).await,
            TestCaller::Grpc(plain) => plain.call(node, call, items).await,
            TestCaller::Endpoint(endpoint) => endpoint.call(call, items).await,
        }
    }
}

async fn call_client(client: &Client, call: TestCall, items: &[&TestKey]) -> Vec<ItemOutcome> {
    let namespace = items[0].namespace;
    match (call, items) {
        (TestCall::Next(count), [one]) => {
            let answer = client
                .namespace(namespace)
                .next_n(one.key.clone(), count)
                .await;
            vec![numbers_outcome(answer, one)]
        }
        (TestCall::Next(count), many) => {
            let items: Vec<NextItem> = many
                .iter()
                .map(|s| NextItem::new(s.key.clone()).with_count(count))
                .collect();
            let answers = client.namespace(namespace).next_batch(&items).await;
            answers
                .into_iter()
                .zip(many)
                .map(|(a, s)| numbers_outcome(a, s))
                .collect()
        }
        (TestCall::Current, [one]) => {
            vec![current_outcome(
                client.namespace(namespace).current(one.key.clone()).await,
            )]
        }
        (TestCall::Current, many) => {
            let keys: Vec<_> = many.iter().map(|s| s.key.clone()).collect();
            let answers = client.namespace(namespace).current_batch(&keys).await;
            answers.into_iter().map(current_outcome).collect()
        }
        (TestCall::RaiseTo(value), _) => {
            let key = items[0].key.clone();
            let raised = client.namespace(namespace).raise_to(key, value).await;
            let raised = raised.map(|r| {
                (
                    Some(r.epoch),
                    CallAnswer::RaiseTo {
                        requested: value,
                        to: r.value,
                    },
                )
            });
            vec![raised.map_err(|e| e.to_string())]
        }
    }
}

fn numbers_outcome(
    answer: std::result::Result<IssuedRange, Error>,
    test_key: &TestKey,
) -> ItemOutcome {
    let numbers = answer.map_err(|e| e.to_string())?;
    Ok((
        Some(numbers.epoch),
        next_answer(numbers.first, numbers.last, test_key),
    ))
}

fn current_outcome(answer: std::result::Result<Current, Error>) -> ItemOutcome {
    let current = answer.map_err(|e| e.to_string())?;
    let answer = match current.kind {
        CurrentKind::Exact => CallAnswer::Exact(current.value),
        CurrentKind::Never => CallAnswer::Never,
        CurrentKind::AtMost => CallAnswer::AtMost(current.value),
    };
    Ok((Some(current.epoch), answer))
}
