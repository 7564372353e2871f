//! Checks that the address under which this process registers leads to this process.
//!
//! Invariant: this process opens no session before it has answered a call that it sent to its own
//! address. Callers of a slot are sent to the address of its owner, but renewals need no connection
//! to it. Schedule that breaks it: `--advertise` names a port on which nothing listens, or another
//! AllocSvr does. The session is renewed, so the arbiter gives it a share of the slots, and every
//! call to one of their keys fails for as long as the process runs.
//!
//! The check precedes the session, so a session that supersedes an earlier one by its proof takes
//! no slots from it either. It is not repeated: an address that once led here and does not now is a
//! failure of the network, which may end before the lease does.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::namespace::NAME_MAX;
use seqsvr_net::ChannelPool;
use seqsvr_proto::error::local_cause;
use seqsvr_proto::v1::NodeStatusRequest;
use seqsvr_proto::v1::admin_client::AdminClient;
use tokio::time::{sleep, timeout};

use crate::alloc_identity::AllocIdentity;
use crate::random::RandomSource;

/// Maximum time of one attempt; after it the next one begins.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Check of the address of this process.
pub(crate) struct AddressCheck {
    identity: Arc<AllocIdentity>,
    channels: ChannelPool,
    random: RandomSource,
    /// Why this process has not met itself yet; None: it has.
    failure: Mutex<Option<String>>,
}

impl AddressCheck {
    pub(crate) fn new(
        identity: Arc<AllocIdentity>,
        channels: ChannelPool,
        random: RandomSource,
    ) -> AddressCheck {
        let failure = format!("no answer from {} yet", identity.address);
        AddressCheck {
            identity,
            channels,
            random,
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
        while let Err(cause) = self.call_own_address().await {
            let address = &self.identity.address;
            let text = format!(
                "{cause}; this AllocSvr takes no slots before it reaches itself at {address}: correct --advertise, or let this machine reach that address"
            );
            if !was_logged {
                tracing::warn!(%address, reason = %text, "the advertised address does not lead to this process");
                was_logged = true;
            }
            *self.failure.lock() = Some(text);
            sleep(self.random.jitter(RETRY_INTERVAL)).await;
        }
        *self.failure.lock() = None;
        if was_logged {
            tracing::info!(address = %self.identity.address, "the advertised address leads to this process now");
        }
    }

    /// Calls the server at the address of this process once.
    ///
    /// # Errors
    /// It does not answer, or it is another process.
    async fn call_own_address(&self) -> Result<(), String> {
        let address = &self.identity.address;
        // A new connection each time: the name may have got another address since.
        let channel = self.channels.separate().get(address);
        let mut server = AdminClient::new(channel.map_err(|e| e.to_string())?);
        let answer = timeout(ATTEMPT_TIMEOUT, server.node_status(NodeStatusRequest {})).await;
        let status = match answer {
            Ok(Ok(answer)) => answer.into_inner(),
            Ok(Err(status)) => {
                let cause = local_cause(&status).unwrap_or_else(|| status.message().to_owned());
                return Err(format!("no AllocSvr answers at {address}: {cause}"));
            }
            Err(_) => {
                return Err(format!(
                    "no answer from {address} within {ATTEMPT_TIMEOUT:?}"
                ));
            }
        };
        match status.incarnation == self.identity.incarnation {
            true => Ok(()),
            false => {
                let name: String = status.name.chars().take(NAME_MAX).collect();
                Err(format!("another server answers at {address}: {name:?}"))
            }
        }
    }
}
