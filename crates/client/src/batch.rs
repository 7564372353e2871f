//! The forms of a call about many keys: how items become the columns of a request, and a reply's
//! columns become answers.

use seqsvr_proto::v1;

use crate::answer::{Current, Numbers};
use crate::client::check_count;
use crate::error::Error;
use crate::key::Key;
use crate::options::NextItem;
use crate::routing::Place;
use crate::rpc::Rpc;

/// A call about many keys.
pub(crate) trait Batch {
    type Item;
    type Answer: Send;
    type Request: Rpc<Reply: Sync>;

    fn key(item: &Self::Item) -> &Key;
    /// Refuses an item that would fail the whole request.
    fn check(item: &Self::Item) -> Result<(), Error>;
    /// Numbers it takes.
    fn weight(item: &Self::Item) -> u64;
    /// A request for items that all have uids or all have keys, each with the epoch to send.
    fn request(
        namespace: &str,
        version: u64,
        strict: bool,
        items: &[(&Self::Item, u64)],
    ) -> Self::Request;
    /// Whether each column has `n` entries.
    fn fits(reply: &<Self::Request as Rpc>::Reply, n: usize) -> bool;
    fn errors(reply: &<Self::Request as Rpc>::Reply) -> &[v1::ItemError];
    fn epoch(reply: &<Self::Request as Rpc>::Reply, i: usize) -> u64;
    fn read(
        reply: &<Self::Request as Rpc>::Reply,
        i: usize,
        item: &Self::Item,
        place: Place,
    ) -> Result<Self::Answer, &'static str>;
}

fn uid(key: &Key) -> Option<u64> {
    match key {
        Key::Uid(uid) => Some(*uid),
        Key::Key(_) => None,
    }
}

fn bytes(key: &Key) -> Option<bytes::Bytes> {
    match key {
        Key::Uid(_) => None,
        Key::Key(key) => Some(key.clone()),
    }
}

/// NextMany.
pub(crate) struct NextBatch;

impl Batch for NextBatch {
    type Item = NextItem;
    type Answer = Numbers;
    type Request = v1::NextManyRequest;

    fn key(item: &NextItem) -> &Key {
        &item.key
    }

    fn check(item: &NextItem) -> Result<(), Error> {
        check_count(item.count)
    }

    fn weight(item: &NextItem) -> u64 {
        u64::from(item.count)
    }

    fn request(
        namespace: &str,
        version: u64,
        strict: bool,
        items: &[(&NextItem, u64)],
    ) -> v1::NextManyRequest {
        let floors = items.iter().map(|(i, _)| i.floor.unwrap_or(0)).collect();
        v1::NextManyRequest {
            namespace: namespace.to_owned(),
            uids: items.iter().filter_map(|(i, _)| uid(&i.key)).collect(),
            keys: items.iter().filter_map(|(i, _)| bytes(&i.key)).collect(),
            counts: items.iter().map(|(i, _)| i.count).collect(),
            floors: column(items.iter().any(|(i, _)| i.floor.is_some()), floors),
            epochs: epochs(items),
            table_version: version,
            strict,
            ..v1::NextManyRequest::default()
        }
    }

    fn fits(reply: &v1::NextManyResponse, n: usize) -> bool {
        [reply.firsts.len(), reply.lasts.len(), reply.epochs.len()] == [n; 3]
    }

    fn errors(reply: &v1::NextManyResponse) -> &[v1::ItemError] {
        &reply.errors
    }

    fn epoch(reply: &v1::NextManyResponse, i: usize) -> u64 {
        reply.epochs[i]
    }

    fn read(
        reply: &v1::NextManyResponse,
        i: usize,
        item: &NextItem,
        place: Place,
    ) -> Result<Numbers, &'static str> {
        let numbers = Numbers {
            first: reply.firsts[i],
            last: reply.lasts[i],
            epoch: reply.epochs[i],
            stride: place.stride,
        };
        Numbers::read(numbers, item.count, item.floor)
    }
}

/// CurrentMany.
pub(crate) struct CurrentBatch;

impl Batch for CurrentBatch {
    type Item = Key;
    type Answer = Current;
    type Request = v1::CurrentManyRequest;

    fn key(item: &Key) -> &Key {
        item
    }

    fn check(_: &Key) -> Result<(), Error> {
        Ok(())
    }

    fn weight(_: &Key) -> u64 {
        0
    }

    fn request(
        namespace: &str,
        version: u64,
        strict: bool,
        items: &[(&Key, u64)],
    ) -> v1::CurrentManyRequest {
        v1::CurrentManyRequest {
            namespace: namespace.to_owned(),
            uids: items.iter().filter_map(|(key, _)| uid(key)).collect(),
            keys: items.iter().filter_map(|(key, _)| bytes(key)).collect(),
            table_version: version,
            strict,
            epochs: epochs(items),
            ..v1::CurrentManyRequest::default()
        }
    }

    fn fits(reply: &v1::CurrentManyResponse, n: usize) -> bool {
        [reply.kinds.len(), reply.values.len(), reply.epochs.len()] == [n; 3]
    }

    fn errors(reply: &v1::CurrentManyResponse) -> &[v1::ItemError] {
        &reply.errors
    }

    fn epoch(reply: &v1::CurrentManyResponse, i: usize) -> u64 {
        reply.epochs[i]
    }

    fn read(
        reply: &v1::CurrentManyResponse,
        i: usize,
        _: &Key,
        _: Place,
    ) -> Result<Current, &'static str> {
        let kind = v1::CurrentKind::try_from(reply.kinds[i]).unwrap_or_default();
        Current::read(kind, reply.values[i], reply.epochs[i])
    }
}

/// The epochs to send; empty if there is none.
fn epochs<T>(items: &[(T, u64)]) -> Vec<u64> {
    let any = items.iter().any(|(_, epoch)| *epoch > 0);
    column(any, items.iter().map(|(_, epoch)| *epoch).collect())
}

/// A column that may be left out.
fn column(any: bool, column: Vec<u64>) -> Vec<u64> {
    if any { column } else { Vec::new() }
}
