//! The forms of a call about many keys: what an item requests, and how a reply becomes its answer.

use std::marker::PhantomData;

use crate::answer::{Current, Numbers};
use crate::client::check_count;
use crate::error::Error;
use crate::item::{Item, ItemKey};
use crate::key::Key;
use crate::pipe::{Asks, Got};

/// A call about many keys.
pub(crate) trait Batch {
    type Item: Sync;
    type Answer: Send;
    const ASKS: Asks;

    fn key(item: &Self::Item) -> ItemKey<'_>;
    /// Rejects an item that would fail the whole request.
    fn check(item: &Self::Item) -> Result<(), Error>;
    /// Returns how many numbers the item takes.
    fn count(item: &Self::Item) -> u32;
    /// Returns the last number that the caller has seen; 0: none.
    fn floor(item: &Self::Item) -> u64;
    /// Makes the answer from a reply, in a namespace of this stride.
    fn read(got: Got, item: &Self::Item, stride: u32) -> Result<Self::Answer, &'static str>;
}

/// NextMany.
pub(crate) struct NextBatch<I>(PhantomData<I>);

impl<I: Item> Batch for NextBatch<I> {
    type Item = I;
    type Answer = Numbers;
    const ASKS: Asks = Asks::Next;

    fn key(item: &I) -> ItemKey<'_> {
        item.key()
    }

    fn check(item: &I) -> Result<(), Error> {
        check_count(item.count())
    }

    fn count(item: &I) -> u32 {
        item.count()
    }

    fn floor(item: &I) -> u64 {
        item.floor().unwrap_or(0)
    }

    fn read(got: Got, item: &I, stride: u32) -> Result<Numbers, &'static str> {
        Numbers::read(got, stride, item.count(), item.floor())
    }
}

/// CurrentMany.
pub(crate) struct CurrentBatch;

impl Batch for CurrentBatch {
    type Item = Key;
    type Answer = Current;
    const ASKS: Asks = Asks::Current;

    fn key(item: &Key) -> ItemKey<'_> {
        item.key()
    }

    fn check(_: &Key) -> Result<(), Error> {
        Ok(())
    }

    fn count(_: &Key) -> u32 {
        0
    }

    fn floor(_: &Key) -> u64 {
        0
    }

    fn read(got: Got, _: &Key, _: u32) -> Result<Current, &'static str> {
        Current::read(got)
    }
}
