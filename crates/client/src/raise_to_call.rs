//! A call that raises a number: a unary request.

use std::pin::Pin;

use seqsvr_core::key::KeyRef;
use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::v1;

use crate::attempt::attempt_error::AttemptError;
use crate::call::context::CallContext;
use crate::call::key::key_call::{KeyCall, KeyRoute, call_until_answered};
use crate::call::retry_budget::RetryBudget;
use crate::call::unary_attempt::attempt_unary;
use crate::error::Error;
use crate::routing::locate::KeyLocation;
use crate::types::Raised;

/// Call that raises the number of a key. It begins when it is awaited.
#[must_use = "the call begins when it is awaited"]
pub struct RaiseToCall<'a> {
    pub(crate) context: &'a CallContext,
    pub(crate) namespace: &'a str,
    /// Why the name cannot be that of a namespace.
    pub(crate) name_error: Option<Error>,
    pub(crate) key: KeyBuf,
    /// Number above which every later number of the key will be.
    pub(crate) value: u64,
    /// Skips the namespace's bound on jumps.
    pub(crate) force: bool,
}

impl RaiseToCall<'_> {
    /// Sets whether the call skips the namespace's bound on jumps. Without it, a larger jump fails.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    async fn run(self) -> Result<Raised, Error> {
        if let Some(error) = &self.name_error {
            return Err(error.clone());
        }
        let budget = RetryBudget::new(self.context.deadline);
        call_until_answered(self.context, &self, budget, None).await
    }
}

impl<'a> IntoFuture for RaiseToCall<'a> {
    type Output = Result<Raised, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Raised, Error>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

impl KeyCall for RaiseToCall<'_> {
    type Reply = v1::RaiseToResponse;
    type Answer = Raised;

    fn namespace(&self) -> &str {
        self.namespace
    }

    fn key(&self) -> KeyRef<'_> {
        self.key.as_ref()
    }

    async fn send(
        &self,
        context: &CallContext,
        to: &KeyRoute,
        budget: &mut RetryBudget,
    ) -> Result<v1::RaiseToResponse, AttemptError> {
        let epoch = context.core.table.epoch_seen(to.location.slot);
        let request = v1::RaiseToRequest {
            namespace: self.namespace.to_owned(),
            key_kind: Some(self.key.clone().into()),
            value: self.value,
            force: self.force,
            table_version: to.snapshot.table.version(),
            epoch: (epoch > 0).then_some(epoch),
            ..v1::RaiseToRequest::default()
        };
        attempt_unary(&context.core, &to.address, request, budget).await
    }

    fn reply_epoch(reply: &v1::RaiseToResponse) -> u64 {
        reply.epoch
    }

    fn decode(&self, reply: v1::RaiseToResponse, _: KeyLocation) -> Result<Raised, &'static str> {
        if reply.value < self.value {
            return Err("value is below the requested value");
        }
        Ok(Raised {
            value: reply.value,
            epoch: reply.epoch,
        })
    }
}
