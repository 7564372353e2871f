//! RaiseTo as a call about one key: a unary request.

use seqsvr_core::key::KeyRef;
use seqsvr_proto::key::KeyBuf;
use seqsvr_proto::v1;

use crate::attempt::attempt_error::AttemptError;
use crate::call::context::CallContext;
use crate::call::key::key_call::{KeyCall, KeyRoute};
use crate::call::retry_budget::RetryBudget;
use crate::call::unary_attempt::attempt_unary;
use crate::routing::locate::KeyLocation;
use crate::types::Raised;

/// Request to raise the number of one key.
pub(crate) struct RaiseAttempt<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) key: &'a KeyBuf,
    /// Number above which every later number of the key will be.
    pub(crate) value: u64,
    /// Skips the namespace's bound on jumps.
    pub(crate) force: bool,
}

impl KeyCall for RaiseAttempt<'_> {
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
