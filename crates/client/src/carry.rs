//! One try of items at one address, through its pipe.
//!
//! Invariant: the pipe learns the routing table that an answer carries before the caller sees the
//! answer. It also notes what a try says about the server itself before the failure is judged.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::client::{Client, Inner};
use crate::failure::Failure;
use crate::pipe::{Answers, Entry, Got, Lot, Parcel, Patience, Pipe, Refused};
use crate::table::Known;

/// Pipes opened for one try: the server may close each just before it takes the items.
const PIPES_MAX: usize = 4;

impl Client {
    /// Carries one item.
    pub(crate) async fn carry_one(
        &self,
        address: &str,
        lot: &Lot<'_>,
        parcel: Parcel<'_>,
        budget: &mut Budget,
    ) -> Result<Got, Failure> {
        let answered = self
            .carry(address, 1, budget, |pipe, patience| {
                pipe.submit_one(lot, parcel, patience)
            })
            .await;
        answered.and_then(|entry: Entry| entry.map_err(|failure| *failure))
    }

    /// Carries the items of one call, at most as many as a frame holds.
    pub(crate) async fn carry_many(
        &self,
        address: &str,
        lot: &Lot<'_>,
        weight: u64,
        parcels: &[Parcel<'_>],
        budget: &mut Budget,
    ) -> Result<Answers, Failure> {
        self.carry(address, parcels.len(), budget, |pipe, patience| {
            pipe.submit_many(lot, weight, parcels.iter().copied(), patience)
        })
        .await
    }

    async fn carry<T>(
        &self,
        address: &str,
        items: usize,
        budget: &mut Budget,
        submit: impl Fn(&Pipe, Patience) -> Result<oneshot::Receiver<T>, Refused>,
    ) -> Result<T, Failure> {
        budget.asks(address);
        let patience = budget.patience(Instant::now());
        let Patience { until, time } = patience;
        let mut gone = 0;
        while gone < PIPES_MAX {
            let opened = self.inner.pipes.get(&self.inner, address);
            let pipe = opened.inspect_err(|_| self.inner.servers.silent(address))?;
            match submit(&pipe, patience) {
                Ok(answer) => {
                    drop(pipe);
                    return answer.await.map_err(|_| Failure::lost(address));
                }
                Err(Refused::Gone) => gone += 1,
                Err(Refused::Full) if Instant::now() >= until => break,
                Err(Refused::Full) => pipe.room_by(items, until).await,
            }
        }
        self.inner.servers.silent(address);
        Err(Failure::silent(address, time))
    }
}

impl Inner {
    /// Submits to an owner's pipe at once; None if it is suspect or its pipe takes nothing now.
    pub(crate) fn at_owner<T>(
        self: &Arc<Self>,
        known: &Known,
        owner: usize,
        submit: impl Fn(&Pipe) -> Result<T, Refused>,
    ) -> Option<T> {
        if self.servers.is_suspect(&known.addresses[owner]) {
            return None;
        }
        let last = known.pipes[owner].load();
        let submitted = last
            .as_ref()
            .map_or(Err(Refused::Gone), |pipe| submit(pipe));
        match submitted {
            Ok(submitted) => Some(submitted),
            Err(Refused::Full) => None,
            Err(Refused::Gone) => {
                let pipe = self.pipes.get(self, &known.addresses[owner]).ok()?;
                known.pipes[owner].store(Some(pipe.clone()));
                submit(&pipe).ok()
            }
        }
    }
}
