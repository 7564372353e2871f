//! Checks that the address under which this process registers leads to this process.
//!
//! Invariant: this process opens no session before it has answered a call that it sent to its own
//! address. Callers of a slot are sent to the address of its owner, but renewals need no connection
//! to it. Schedule that breaks it: `--advertise` names a port on which nothing listens, or another
//! AllocSvr does. The session is renewed, so the arbiter gives it a share of the slots, and every
//! call to one of their keys fails for as long as the process runs.
//!
//! Invariant: callers do not decide whether this process meets itself. The check names the random
//! number of this process, and a server that has that number answers it before it takes one of the
//! places for status calls. A server that is slow gets more time with each attempt. Schedule that
//! breaks it: an AllocSvr is started again while callers keep 8,192 status calls in flight at it.
//! The places may be taken whenever an attempt arrives, and each attempt that fails delays the
//! session; if one walk over the sections hangs, no attempt succeeds.
//!
//! The check precedes the session, so a session that supersedes an earlier one by its proof takes
//! no slots from it either. It is not repeated: an address that once led here and does not now is a
//! failure of the network, which may end before the lease does.

use std::time::Duration;

use crate::shared_parts::SharedParts;
use parking_lot::Mutex;
use seqsvr_core::namespace::NAME_MAX;
use seqsvr_proto::error::local_cause;
use seqsvr_proto::v1::NodeStatusRequest;
use seqsvr_proto::v1::admin_client::AdminClient;
use tokio::time::{sleep, timeout};
use tonic::Request;
use tonic::metadata::MetadataValue;

/// Key of the metadata in which the check names the random number of its process.
const INCARNATION_KEY: &str = "seqsvr-incarnation";
/// Maximum time of the first attempt. The next one may take twice as long as one that timed out.
const ATTEMPT_TIMEOUT_FIRST: Duration = Duration::from_secs(1);
/// Maximum time of any attempt; after it the next one begins.
const ATTEMPT_TIMEOUT_MAX: Duration = Duration::from_secs(8);
/// Maximum pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Returns the random number that the sender of a status call has; None: it is no such check.
pub(crate) fn named_incarnation(request: &Request<NodeStatusRequest>) -> Option<u64> {
    let named = request.metadata().get(INCARNATION_KEY)?;
    named.to_str().ok()?.parse().ok()
}

/// Check of the address of this process.
pub(crate) struct AddressCheck {
    pub(crate) shared: SharedParts,
    /// Why this process has not met itself yet; None: it has.
    pub(crate) failure: Mutex<Option<String>>,
}

impl AddressCheck {
    pub(crate) fn new(shared: SharedParts) -> AddressCheck {
        let failure = format!("no answer from {} yet", shared.identity.address);
        AddressCheck {
            shared,
            failure: Mutex::new(Some(failure)),
        }
    }

    /// Returns why this process has not met itself at its address, and what to do; None: it has.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Waits until this process has answered a call to its own address.
    pub(crate) async fn wait_until_met(&self) {
        let mut was_logged = false;
        let mut attempt_timeout = ATTEMPT_TIMEOUT_FIRST;
        while let Err(cause) = self.call_own_address(&mut attempt_timeout).await {
            let address = &self.shared.identity.address;
            let text = format!(
                "{cause}; this AllocSvr takes no slots before it reaches itself at {address}: correct --advertise, or let this machine reach that address"
            );
            if !was_logged {
                tracing::warn!(%address, reason = %text, "the advertised address does not lead to this process");
                was_logged = true;
            }
            *self.failure.lock() = Some(text);
            sleep(self.shared.random.jitter(RETRY_INTERVAL)).await;
        }
        *self.failure.lock() = None;
        if was_logged {
            tracing::info!(address = %self.shared.identity.address, "the advertised address leads to this process now");
        }
    }

    /// Calls the server at the address of this process once. Raises the timeout if it is too short.
    ///
    /// # Errors
    /// It does not answer, or it is another process.
    async fn call_own_address(&self, attempt_timeout: &mut Duration) -> Result<(), String> {
        let address = &self.shared.identity.address;
        // A new connection each time: the name may have got another address since.
        let channel = self.shared.channels.separate().get(address);
        let mut server = AdminClient::new(channel.map_err(|e| e.to_string())?);
        let mut request = Request::new(NodeStatusRequest {});
        let incarnation = MetadataValue::from(self.shared.identity.incarnation);
        request.metadata_mut().insert(INCARNATION_KEY, incarnation);
        let answer = timeout(*attempt_timeout, server.node_status(request)).await;
        let status = match answer {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => {
                let cause = local_cause(&status).unwrap_or_else(|| status.message().to_owned());
                return Err(format!("no AllocSvr answers at {address}: {cause}"));
            }
            Err(_) => {
                let text = format!("no answer from {address} within {attempt_timeout:?}");
                *attempt_timeout = (2 * *attempt_timeout).min(ATTEMPT_TIMEOUT_MAX);
                return Err(text);
            }
        };
        match status.incarnation == self.shared.identity.incarnation {
            true => Ok(()),
            false => {
                let name: String = status.name.chars().take(NAME_MAX).collect();
                Err(format!("another server answers at {address}: {name:?}"))
            }
        }
    }
}
