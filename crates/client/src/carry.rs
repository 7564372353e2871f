//! One try of items at one address, through its pipe.
//!
//! Invariant: the routing table that an answer carries is learnt before its caller sees it (by the
//! pipe), and what a try tells about the server itself is noted (there too) before the failure is judged.

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::budget::Budget;
use crate::client::Client;
use crate::failure::Failure;
use crate::pipe::{Entry, Got, Lot, Parcel, Patience, Pipe, Refused};

/// Pipes opened for one try: each may be told to close just before it takes the items.
const PIPES_MAX: usize = 4;

impl Client {
    /// One item.
    pub(crate) async fn carry_one(
        &self,
        address: &str,
        lot: &Lot<'_>,
        parcel: Parcel<'_>,
        budget: &mut Budget,
    ) -> Result<Got, Failure> {
        let answered = self
            .carry(address, budget, |pipe, patience| {
                pipe.submit_one(lot, parcel, patience)
            })
            .await;
        answered.and_then(|entry: Entry| entry.map_err(|failure| *failure))
    }

    /// Items of one call, at most as many as a frame holds.
    pub(crate) async fn carry_many(
        &self,
        address: &str,
        lot: &Lot<'_>,
        parcels: &[Parcel<'_>],
        budget: &mut Budget,
    ) -> Result<Vec<Entry>, Failure> {
        let weight = parcels.iter().map(Parcel::weight).sum();
        self.carry(address, budget, |pipe, patience| {
            pipe.submit_many(lot, weight, parcels.iter().copied(), patience)
        })
        .await
    }

    async fn carry<T>(
        &self,
        address: &str,
        budget: &mut Budget,
        submit: impl Fn(&Pipe, Patience) -> Result<oneshot::Receiver<T>, Refused>,
    ) -> Result<T, Failure> {
        budget.asks(address);
        let time = budget.try_time();
        let until = Instant::now() + time;
        let patience = Patience { until, time };
        let mut gone = 0;
        while gone < PIPES_MAX {
            let opened = self.inner.pipes.get(&self.inner, address);
            let pipe = opened.inspect_err(|_| self.inner.servers.silent(address))?;
            match submit(&pipe, patience) {
                Ok(answer) => {
                    drop(pipe);
                    let lost = |_| Failure::unreachable(address, "the pipe was lost");
                    return answer.await.map_err(lost);
                }
                Err(Refused::Gone) => gone += 1,
                Err(Refused::Full) if Instant::now() >= until => break,
                Err(Refused::Full) => pipe.room_by(until).await,
            }
        }
        self.inner.servers.silent(address);
        Err(Failure::silent(address, time))
    }
}
