//! Calls about one key: place, try, learn, again.

use seqsvr_core::route::KeyRef;
use seqsvr_proto::convert::namespace_name;
use tokio::time::sleep;

use crate::budget::Budget;
use crate::client::Client;
use crate::error::Error;
use crate::failure::Failure;
use crate::routing::Place;
use crate::rpc::Routed;

impl Client {
    /// Tries `request` until it is answered, refused for good, or out of time. `read` makes the
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
        let address = inner.target(&known, place.slot);
        let mut request = request.clone();
        request.stamp(known.table.version(), inner.table.epoch(place.slot));
        let reply = inner
            .try_at(&address, request, budget)
            .await
            .map_err(|failure| inner.about(place.slot, &known, failure))?;
        inner.table.saw(place.slot, R::epoch(&reply));
        read(reply, place).map_err(|what| Failure::malformed(&address, what))
    }
}
