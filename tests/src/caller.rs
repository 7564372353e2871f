//! One interface for every kind of caller: the SDK, a plain gRPC caller that always calls an
//! AllocSvr that does not own the key, and clients of other protocols.

use seqsvr_check::Answer;
use seqsvr_client::{Client, Current, CurrentKind, Error, NextItem, Numbers};

use crate::door::Door;
use crate::plain::Plain;
use crate::subject::Subject;

/// Operation of a call, applied to every item. `RaiseTo` takes one item.
#[derive(Clone, Copy, Debug)]
pub enum Ask {
    /// Take this many numbers.
    Next(u32),
    /// Read the last number given out.
    Current,
    /// Make every later number greater than this value.
    RaiseTo(u64),
}

/// Epoch (if the protocol reports it) and answer of an item, or the error text.
pub type Result = std::result::Result<(Option<u64>, Answer), String>;

/// A kind of caller.
#[derive(Clone)]
pub enum Caller {
    /// The SDK with its default deadline.
    Client(Client),
    /// A gRPC caller without routes.
    Plain(Plain),
    /// A client of another protocol.
    Door(Door),
}

impl Caller {
    /// Returns whether the caller uses the Redis or the HTTP endpoint.
    pub fn is_door(&self) -> bool {
        matches!(self, Caller::Door(_))
    }

    /// Splits items of one namespace into the requests that this caller must send, each with the
    /// index of the node to call.
    pub async fn part<'a>(&self, items: &[&'a Subject]) -> Vec<(usize, Vec<&'a Subject>)> {
        match self {
            Caller::Client(_) | Caller::Door(_) => vec![(0, items.to_vec())],
            Caller::Plain(plain) => plain.part(items).await,
        }
    }

    /// Makes one call and returns one result for each item.
    pub async fn ask(&self, node: usize, ask: Ask, items: &[&Subject]) -> Vec<Result> {
        match self {
            Caller::Client(client) => ask_client(client, ask, items).await,
            Caller::Plain(plain) => plain.ask(node, ask, items).await,
            Caller::Door(door) => door.ask(ask, items).await,
        }
    }
}

async fn ask_client(client: &Client, ask: Ask, items: &[&Subject]) -> Vec<Result> {
    let namespace = items[0].namespace;
    match (ask, items) {
        (Ask::Next(count), [one]) => {
            let answer = client.next(namespace, one.key.clone(), count).await;
            vec![numbers(answer, one)]
        }
        (Ask::Next(count), many) => {
            let wanted: Vec<NextItem> = many
                .iter()
                .map(|s| NextItem {
                    count,
                    ..NextItem::new(s.key.clone())
                })
                .collect();
            let answers = client.next_many(namespace, &wanted).await;
            answers
                .into_iter()
                .zip(many)
                .map(|(a, s)| numbers(a, s))
                .collect()
        }
        (Ask::Current, [one]) => {
            vec![current(client.current(namespace, one.key.clone()).await)]
        }
        (Ask::Current, many) => {
            let keys: Vec<_> = many.iter().map(|s| s.key.clone()).collect();
            let answers = client.current_many(namespace, &keys).await;
            answers.into_iter().map(current).collect()
        }
        (Ask::RaiseTo(asked), _) => {
            let key = items[0].key.clone();
            let raised = client.raise_to(namespace, key, asked, false).await;
            let raised = raised.map(|r| (Some(r.epoch), Answer::RaiseTo { asked, to: r.value }));
            vec![raised.map_err(|e| e.to_string())]
        }
    }
}

fn numbers(answer: std::result::Result<Numbers, Error>, subject: &Subject) -> Result {
    let numbers = answer.map_err(|e| e.to_string())?;
    Ok((
        Some(numbers.epoch),
        next(numbers.first, numbers.last, subject),
    ))
}

/// Converts numbers to the form that a history records.
pub(crate) fn next(first: u64, last: u64, subject: &Subject) -> Answer {
    Answer::Next {
        first,
        last,
        stride: subject.stride,
    }
}

fn current(answer: std::result::Result<Current, Error>) -> Result {
    let current = answer.map_err(|e| e.to_string())?;
    let answer = match current.kind {
        CurrentKind::Exact => Answer::Exact(current.value),
        CurrentKind::Never => Answer::Never,
        CurrentKind::AtMost => Answer::AtMost(current.value),
    };
    Ok((Some(current.epoch), answer))
}
