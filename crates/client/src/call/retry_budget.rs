//! Budget of one call: its deadline, its backoff, and the record of its attempts.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_proto::v1::Reason;
use tokio::time::{Instant, sleep};

use crate::attempt::attempt_deadline::AttemptDeadline;
use crate::attempt::attempt_error::AttemptError;
use crate::attempt::retry_decision::RetryDecision;
use crate::attempt::wait_status::WaitToken;
use crate::client_core::ClientCore;
use crate::error::{ERROR_ADDRESSES_MAX, Error, ErrorDetails};
use crate::routing::server_set::ServerSet;

/// Maximum time of one attempt, which also takes at most a quarter of the call's time, so that an
/// unresponsive server leaves time for others.
const ATTEMPT_TIMEOUT_MAX: Duration = Duration::from_secs(1);
/// Minimum time of one attempt: a busy server needs some time.
const ATTEMPT_TIMEOUT_MIN: Duration = Duration::from_millis(50);
/// Time left below which an attempt would only replace the last reason by "no answer".
const LAST_ATTEMPT_MIN: Duration = Duration::from_millis(10);
/// Backoff before the first retry; each later one is twice as long.
const BACKOFF_FIRST: Duration = Duration::from_millis(5);
/// Maximum backoff.
const BACKOFF_MAX: Duration = Duration::from_millis(250);
/// Maximum of the hints of an AllocSvr that had no id; above it the call retries earlier.
const HOLDER_HINT_MAX: Duration = Duration::from_secs(1);
/// Maximum retries of one call without a pause, after a new route. More mean that the table is
/// unstable: they pause.
const IMMEDIATE_RETRIES_MAX: u32 = 8;

/// Time and attempts of one call, and the decision when it retries.
#[derive(Clone)]
pub(crate) struct RetryBudget {
    total: Duration,
    attempt_timeout_max: Duration,
    started: Instant,
    attempts: u32,
    addresses: Vec<String>,
    backoff: Duration,
    immediate_retries: u32,
    /// Servers that the next attempt avoids; the one that failed last is the last.
    avoided: Vec<String>,
    /// Tables fetched only because a namespace or family was missing.
    pub(crate) lookups: u32,
    wait_token: Option<Arc<WaitToken>>,
    /// The call takes ids, which another server may have.
    is_for_ids: bool,
    /// The last failure that says why.
    last_explained: Option<AttemptError>,
}

impl RetryBudget {
    pub(crate) fn new(total: Duration) -> RetryBudget {
        RetryBudget {
            total,
            attempt_timeout_max: (total / 4).clamp(ATTEMPT_TIMEOUT_MIN, ATTEMPT_TIMEOUT_MAX),
            started: Instant::now(),
            attempts: 0,
            addresses: Vec::new(),
            backoff: BACKOFF_FIRST,
            immediate_retries: 0,
            avoided: Vec::new(),
            lookups: 0,
            wait_token: None,
            is_for_ids: false,
            last_explained: None,
        }
    }

    /// Returns a budget for a call whose answer may take as long as the call has time.
    pub(crate) fn single_attempt(total: Duration) -> RetryBudget {
        RetryBudget {
            attempt_timeout_max: total,
            ..RetryBudget::new(total)
        }
    }

    /// Returns a budget for a call that takes ids.
    pub(crate) fn for_ids(total: Duration) -> RetryBudget {
        RetryBudget {
            is_for_ids: true,
            ..RetryBudget::new(total)
        }
    }

    /// Returns the time left for the call.
    pub(crate) fn time_left(&self) -> Duration {
        self.total.saturating_sub(self.started.elapsed())
    }

    /// Returns the deadline of the first attempt, which begins with the call.
    pub(crate) fn first_deadline(&self) -> AttemptDeadline {
        self.bounded_deadline(self.started, self.total)
    }

    /// Returns the deadline of an attempt that begins now. The first one needs no clock reading.
    pub(crate) fn next_deadline(&self) -> AttemptDeadline {
        match self.attempts {
            0 => self.first_deadline(),
            _ => self.attempt_deadline(Instant::now()),
        }
    }

    /// Returns the deadline of an attempt that begins at `begin`.
    pub(crate) fn attempt_deadline(&self, begin: Instant) -> AttemptDeadline {
        self.bounded_deadline(begin, self.total.saturating_sub(begin - self.started))
    }

    fn bounded_deadline(&self, begin: Instant, remaining: Duration) -> AttemptDeadline {
        let timeout = remaining
            .min(self.attempt_timeout_max)
            .max(Duration::from_millis(1));
        AttemptDeadline {
            expires_at: begin + timeout,
            timeout,
        }
    }

    /// Returns the time that an attempt may take that begins now.
    pub(crate) fn attempt_timeout(&self) -> Duration {
        self.attempt_deadline(Instant::now()).timeout
    }

    /// Counts a request to the owner, whose address is recorded if the request fails.
    pub(crate) fn record_attempt(&mut self) {
        self.attempts += 1;
    }

    /// Counts a request and records its address.
    pub(crate) fn record_attempt_at(&mut self, address: &str) {
        self.record_attempt();
        self.record_address(address);
    }

    /// Records an address to which a request was sent.
    pub(crate) fn record_address(&mut self, address: &str) {
        if self.addresses.len() < ERROR_ADDRESSES_MAX
            && !self.addresses.iter().any(|a| a == address)
        {
            self.addresses.push(address.to_owned());
        }
    }

    /// Records that an attempt at `address` failed. The next one avoids a server that cannot serve
    /// the key and sent no new route.
    ///
    /// Schedule that this is for: an AllocSvr is cut off from the stores, but not from clients, and
    /// another one takes its slots over. The first one rejects each call and learns no new table.
    /// Any other server forwards the call, or answers with the new table.
    pub(crate) fn record_failure(&mut self, address: &str, failure: &AttemptError) {
        let cannot_serve = matches!(
            failure.reason,
            Reason::NoLease | Reason::NotOwner | Reason::StaleEpoch
        );
        self.avoid_none();
        if cannot_serve && !failure.rerouted {
            self.avoid(address);
        }
    }

    /// Makes the next attempt avoid one more server.
    pub(crate) fn avoid(&mut self, address: &str) {
        self.avoided.push(address.to_owned());
    }

    /// Makes the next attempt avoid the server that failed last only.
    pub(crate) fn avoid_only_last(&mut self) {
        let others = self.avoided.len().saturating_sub(1);
        self.avoided.drain(..others);
    }

    /// Lets the next attempt go to any server.
    pub(crate) fn avoid_none(&mut self) {
        self.avoided.clear();
    }

    /// Returns the servers that the next attempt avoids, if there are others.
    pub(crate) fn all_avoided(&self) -> &[String] {
        &self.avoided
    }

    /// Returns the server that failed last, if the next attempt avoids it.
    pub(crate) fn avoided(&self) -> Option<&String> {
        self.avoided.last()
    }

    /// Waits until the next attempt may begin.
    ///
    /// # Errors
    /// Another attempt would not help, or the time of the call is over.
    pub(crate) async fn pause_for_retry(
        &mut self,
        core: &ClientCore,
        failure: &AttemptError,
    ) -> Result<(), Error> {
        sleep(self.plan_retry(core, failure)?).await;
        Ok(())
    }

    /// Returns how long to wait before the next attempt, or the error that ends the call.
    pub(crate) fn plan_retry(
        &mut self,
        core: &ClientCore,
        failure: &AttemptError,
    ) -> Result<Duration, Error> {
        let counted = core.with_foreign_servers(failure);
        let failure = counted.as_ref().unwrap_or(failure);
        let servers = &core.servers;
        // Once the client has its cluster, other servers forward its calls.
        let failure = match failure.refused && core.table.has_cluster() {
            true => &AttemptError {
                decision: RetryDecision::Retry,
                ..failure.clone()
            },
            false => failure,
        };
        let pause = match failure.decision {
            RetryDecision::Stop => return Err(self.to_error(failure, false)),
            // Not earlier than the server requested, and not together with all other callers that
            // it rejected.
            RetryDecision::RetryAfter(hint) => {
                let hint = match self.is_for_ids && is_of_one_holder(failure.reason) {
                    // A worker may become free earlier, and at least one more attempt has time.
                    true => hint.min(HOLDER_HINT_MAX).min(self.time_left() / 2),
                    false => hint,
                };
                hint + self.next_backoff(servers)
            }
            RetryDecision::Retry
                if failure.rerouted && self.immediate_retries < IMMEDIATE_RETRIES_MAX =>
            {
                self.immediate_retries += 1;
                Duration::ZERO
            }
            RetryDecision::Retry => self.next_backoff(servers),
        };
        if !failure.unexplained {
            self.last_explained = Some(failure.clone());
        }
        if pause + LAST_ATTEMPT_MIN > self.time_left() {
            // The last attempts may have had little time: their silence says less than the failure
            // before.
            return Err(self.to_error(self.last_explained.as_ref().unwrap_or(failure), true));
        }
        if !pause.is_zero() {
            let begin_wait = || Arc::new(core.wait_status.begin_wait());
            self.wait_token
                .get_or_insert_with(begin_wait)
                .set_reason(&failure.message);
        }
        Ok(pause)
    }

    /// Returns a pause twice as long as the last one, jittered and bounded.
    fn next_backoff(&mut self, servers: &ServerSet) -> Duration {
        let pause = servers.add_jitter(self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        pause
    }

    /// Returns the error that ends the call.
    pub(crate) fn to_error(&self, failure: &AttemptError, out_of_time: bool) -> Error {
        Error::from(ErrorDetails {
            code: failure.code,
            reason: failure.reason,
            message: failure.message.clone(),
            attempts: self.attempts,
            addresses: self.addresses.clone(),
            gave_up_after: out_of_time.then(|| self.started.elapsed()),
            decision: failure.decision,
            unanswered: failure.unanswered,
        })
    }
}

/// Returns whether a failure says only that one AllocSvr has no id to give now.
pub(crate) fn is_of_one_holder(reason: Reason) -> bool {
    matches!(reason, Reason::NoWorker | Reason::TooFarAhead)
}
