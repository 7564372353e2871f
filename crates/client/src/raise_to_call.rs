//! A call that raises a number.

use std::pin::Pin;

use seqsvr_proto::key::KeyBuf;

use crate::call::context::CallContext;
use crate::call::key::key_call::call_until_answered;
use crate::call::key::raise_attempt::RaiseAttempt;
use crate::call::retry_budget::RetryBudget;
use crate::error::Error;
use crate::types::Raised;

/// Call that raises the number of a key. It begins when it is awaited.
#[must_use = "the call begins when it is awaited"]
pub struct RaiseToCall<'a> {
    pub(crate) context: &'a CallContext,
    pub(crate) namespace: Result<&'a str, Error>,
    pub(crate) key: KeyBuf,
    pub(crate) value: u64,
    pub(crate) force: bool,
}

impl RaiseToCall<'_> {
    /// Sets whether the call skips the namespace's bound on jumps. Without it, a larger jump fails.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    async fn run(self) -> Result<Raised, Error> {
        let attempt = RaiseAttempt {
            namespace: self.namespace?,
            key: &self.key,
            value: self.value,
            force: self.force,
        };
        let budget = RetryBudget::new(self.context.deadline);
        call_until_answered(self.context, &attempt, budget, None).await
    }
}

impl<'a> IntoFuture for RaiseToCall<'a> {
    type Output = Result<Raised, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<Raised, Error>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
