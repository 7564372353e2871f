//! Checks that the address under which others reach this store leads to this store.
//!
//! Nothing waits for the check: the address may become reachable later, for example a DNS name that
//! is published once this process is ready. `init` and `member add` accept no store under an
//! address that leads elsewhere, but the address of a member may be lost later. Without this check
//! the mistake is seen only when another server calls the store.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::sleep;

use crate::context::StoreContext;
use crate::service::meet_store;

/// Pause after an attempt that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Warns if the group calls this store at another address: the one with which it joined. Waits
/// until it belongs to a group, and until a restarted store has read the members.
pub(crate) async fn warn_of_changed_address(context: &StoreContext) {
    let (own, address) = (context.node.identity().node, &context.address);
    let member = loop {
        let mut members = context.node.members().into_iter();
        match members.find(|member| member.id == own) {
            Some(member) => break member,
            None => sleep(RETRY_INTERVAL).await,
        }
    };
    let called_at = &member.address;
    if address != called_at {
        tracing::warn!(
            %address, %called_at,
            "the other stores call this store at the address with which it joined, which cannot change; start it there, or replace it under a new id"
        );
    }
}

/// Calls the own address until this store answers there, then ends. Logs the first failure.
pub(crate) async fn run(context: &StoreContext) {
    let address = &context.address;
    let incarnation = context.node.identity().incarnation;
    let mut was_logged = false;
    while let Err(cause) = meet_store(context, address, incarnation).await {
        if !was_logged {
            let reason = format!(
                "{cause}; other servers are sent to {address}: correct --advertise, or let this machine reach that address"
            );
            tracing::warn!(%address, %reason, "the advertised address does not lead to this store");
            was_logged = true;
        }
        sleep(RETRY_INTERVAL).await;
    }
    context.own_address_reached.store(true, Ordering::Relaxed);
    if was_logged {
        tracing::info!(%address, "the advertised address leads to this store now");
    }
}
