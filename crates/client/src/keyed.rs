//! Calls about one key: place, try, learn, retry. RaiseTo is a request of its own; the others use a
//! pipe.

use seqsvr_core::route::KeyRef;
use seqsvr_proto::convert::namespace_name;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::budget::Budget;
use crate::client::Client;
use crate::error::Error;
use crate::failure::Failure;
use crate::item::Item;
use crate::key::Key;
use crate::pipe::{Asks, Entry, Got, Lot, Parcel};
use crate::routing::{Place, Whose, whose};
use crate::rpc::Routed;
use crate::table::Known;

/// One key and what the call requests for it, through a pipe.
pub(crate) struct One<'a> {
    pub(crate) asks: Asks,
    pub(crate) namespace: &'a str,
    pub(crate) key: &'a Key,
    /// Numbers to take; 0 for `current`.
    pub(crate) count: u32,
    /// Last number that the caller has seen, 0: none.
    pub(crate) floor: u64,
}

impl Client {
    /// Tries until the item is answered, permanently rejected, or out of time. `read` makes the
    /// answer from what the server sent, or says what is wrong with it.
    pub(crate) async fn one<T>(
        &self,
        one: One<'_>,
        read: impl Fn(Got, Place) -> Result<T, &'static str>,
    ) -> Result<T, Error> {
        let mut budget = Budget::new(self.deadline);
        let mut failure = match self.submit_at_once(&one, &mut budget) {
            Some((place, was, answer)) => match received(answer.await) {
                Ok(got) => {
                    self.inner.table.saw(place.slot, got.epoch);
                    match read(got, place) {
                        Ok(answer) => return Ok(answer),
                        Err(what) => {
                            let address = self.inner.address(was).unwrap_or_default();
                            Some(Failure::malformed(&address, what))
                        }
                    }
                }
                Err(failure) => {
                    if let Some(address) = self.inner.address(was) {
                        budget.note(&address);
                    }
                    Some(self.inner.about(place.slot, was, failure))
                }
            },
            None => None,
        };
        // Boxed, so that the future of the usual call is small.
        Box::pin(async {
            loop {
                if let Some(failure) = failure {
                    let pause = self.inner.pause(&mut budget, &failure)?;
                    sleep(pause).await;
                }
                failure = match self.try_one(&one, &mut budget, &read).await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => Some(failure),
                };
            }
        })
        .await
    }

    /// Handles the usual case without waiting for anything: there is a table, the owner is not
    /// suspect, and its pipe takes the item.
    fn submit_at_once(
        &self,
        one: &One<'_>,
        budget: &mut Budget,
    ) -> Option<(Place, Whose, oneshot::Receiver<Entry>)> {
        let inner = &self.inner;
        let known = inner.table.guard();
        let known = known.as_ref().filter(|_| !inner.table.has_gap())?;
        let place = inner.place(known, one.namespace, one.key.as_ref()).ok()?;
        let owner = known.owner(place.slot)?;
        let patience = budget.first_patience();
        let lot = self.lot(one, known);
        let parcel = self.parcel(one, place);
        let answer =
            inner.at_owner(known, owner, |pipe| pipe.submit_one(&lot, parcel, patience))?;
        budget.tried();
        Some((place, whose(known.table.route(place.slot)), answer))
    }

    fn lot<'a>(&self, one: &One<'a>, known: &Known) -> Lot<'a> {
        Lot {
            asks: one.asks,
            namespace: one.namespace,
            keyed: matches!(one.key, Key::Key(_)),
            strict: self.strict,
            version: known.table.version(),
        }
    }

    fn parcel<'a>(&self, one: &One<'a>, place: Place) -> Parcel<'a> {
        Parcel {
            key: one.key.key(),
            count: one.count,
            floor: one.floor,
            epoch: self.inner.table.epoch(place.slot),
        }
    }

    async fn try_one<T>(
        &self,
        one: &One<'_>,
        budget: &mut Budget,
        read: &impl Fn(Got, Place) -> Result<T, &'static str>,
    ) -> Result<T, Failure> {
        let inner = &self.inner;
        let key = one.key.as_ref();
        let names = [namespace_name(one.namespace, key)];
        let known = inner.known(&names, budget).await?;
        let place = inner.place(&known, one.namespace, key)?;
        let address = inner.target(&known, known.owner(place.slot));
        let lot = self.lot(one, &known);
        let parcel = self.parcel(one, place);
        let got = self
            .carry_one(&address, &lot, parcel, budget)
            .await
            .map_err(|failure| {
                let was = whose(known.table.route(place.slot));
                inner.about(place.slot, was, failure)
            })?;
        inner.table.saw(place.slot, got.epoch);
        read(got, place).map_err(|what| Failure::malformed(&address, what))
    }

    /// Tries `request` until it is answered, permanently rejected, or out of time. `read` makes the
    /// answer from the reply, or says what is wrong with it.
    pub(crate) async fn keyed<R: Routed, T>(
        &self,
        namespace: &str,
        key: KeyRef<'_>,
        request: R,
        read: impl Fn(R::Reply, Place) -> Result<T, &'static str>,
    ) -> Result<T, Error> {
        let mut budget = Budget::new(self.deadline);
        loop {
            let failure = match self
                .keyed_try(namespace, key, &request, &mut budget, &read)
                .await
            {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let pause = self.inner.pause(&mut budget, &failure)?;
            sleep(pause).await;
        }
    }

    async fn keyed_try<R: Routed, T>(
        &self,
        namespace: &str,
        key: KeyRef<'_>,
        request: &R,
        budget: &mut Budget,
        read: &impl Fn(R::Reply, Place) -> Result<T, &'static str>,
    ) -> Result<T, Failure> {
        let inner = &self.inner;
        let known = inner
            .known(&[namespace_name(namespace, key)], budget)
            .await?;
        let place = inner.place(&known, namespace, key)?;
        let address = inner.target(&known, known.owner(place.slot));
        let mut request = request.clone();
        request.stamp(known.table.version(), inner.table.epoch(place.slot));
        let reply = inner
            .try_at(&address, request, budget)
            .await
            .map_err(|failure| {
                let was = whose(known.table.route(place.slot));
                inner.about(place.slot, was, failure)
            })?;
        inner.table.saw(place.slot, R::epoch(&reply));
        read(reply, place).map_err(|what| Failure::malformed(&address, what))
    }
}

/// Returns the result of an item that was submitted.
fn received(answer: Result<Entry, oneshot::error::RecvError>) -> Result<Got, Failure> {
    match answer {
        Ok(entry) => entry.map_err(|failure| *failure),
        Err(_) => Err(Failure::unreachable("the owner", "the pipe was lost")),
    }
}
