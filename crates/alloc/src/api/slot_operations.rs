//! Slot operations of operators: move a slot, drain. A request is forwarded once, to the AllocSvr
//! that it names. A caller with an identity of its own is sent there instead.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::ids::{SessionId, Slot};
use seqsvr_proto::error::{RpcError, local_cause};
use seqsvr_proto::v1::{
    AdminMoveSlotRequest, AdminMoveSlotResponse, ClusterStatusRequest, ClusterStatusResponse,
    DrainRequest, DrainResponse, Reason, SessionStatus,
};
use tokio::time::{Instant, timeout_at};

use crate::api::relay_client::{RelayClient, relay_client};
use crate::shared_parts::SharedParts;
use crate::slots::slot_mover::SlotMover;
use crate::store_client::store_group::StoreGroupClient;
use crate::store_client::unavailable::{no_lease_text, no_table_error, shutting_down_error};

/// Maximum time for a move or a drain to reach its AllocSvr and to complete; after it the call
/// fails.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to get the status of the cluster; after it the call fails.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// Moves and drains of this AllocSvr's slots, and of those of others.
pub(crate) struct SlotOperations {
    pub(crate) shared: SharedParts,
    pub(crate) stores: StoreGroupClient,
    pub(crate) slot_mover: Arc<SlotMover>,
}

impl SlotOperations {
    /// Moves a slot to the AllocSvr with this name, through the owner.
    pub(crate) async fn move_slot_by_name(
        &self,
        request: AdminMoveSlotRequest,
        is_identified: bool,
    ) -> Result<AdminMoveSlotResponse, RpcError> {
        let deadline = Instant::now() + OPERATION_TIMEOUT;
        let no_slot = || {
            let text = format!("there is no slot {}; see `seqsvr route`", request.slot);
            RpcError::new(Reason::Invalid, text)
        };
        let slot = u16::try_from(request.slot).map(Slot);
        let slot = slot.map_err(|_| no_slot())?;
        loop {
            // Looked up at each attempt, because the AllocSvr may have restarted.
            let to = self.find_session(&request.target_name).await?;
            let table = self
                .shared
                .table
                .wait_for_first(deadline)
                .await
                .ok_or_else(|| no_table_error(&self.shared.identity, &self.stores))?;
            let route = table.route(slot).ok_or_else(no_slot)?;
            let fault = match &route.owner {
                None => RpcError::new(
                    Reason::NotOwner,
                    format!("slot {slot} has no owner at the moment; retry"),
                ),
                Some(owner) if owner.session.0 == to.session => {
                    let epoch = route.epoch.0;
                    return Ok(AdminMoveSlotResponse { epoch });
                }
                Some(owner) if owner.address == self.shared.identity.address => {
                    match self.move_owned_slot(slot, to.session, deadline).await {
                        Ok((epoch, true)) => return Ok(AdminMoveSlotResponse { epoch }),
                        Ok(_) => RpcError::new(
                            Reason::NotOwner,
                            format!("slot {slot} moved, but not to {:?}", request.target_name),
                        ),
                        Err(fault) => fault,
                    }
                }
                Some(_) if request.forwarded => {
                    let text = format!("slot {slot} has another owner now");
                    return Err(RpcError::new(Reason::NotOwner, text));
                }
                Some(owner) if is_identified => {
                    let text = format!("slot {slot} is moved by its owner, {:?}", owner.name);
                    return Err(redirect_to(&owner.address, &text));
                }
                Some(owner) => {
                    let request = AdminMoveSlotRequest {
                        forwarded: true,
                        ..request.clone()
                    };
                    let send = async |mut owner: RelayClient| owner.move_slot(request).await;
                    match self
                        .forward_admin_call(&owner.address, deadline, send)
                        .await
                    {
                        Ok(moved) => return Ok(moved),
                        Err(fault) => fault,
                    }
                }
            };
            // The slot may have moved, or its owner may have died. The next table shows it.
            if fault.reason() == Reason::Invalid || Instant::now() >= deadline {
                return Err(fault);
            }
            self.shared.renewals.renew_and_wait(deadline).await;
            self.shared.random.back_off().await;
        }
    }

    /// Moves a slot of this node. Returns the epoch after the move, and whether the requested
    /// AllocSvr owns it.
    async fn move_owned_slot(
        &self,
        slot: Slot,
        to: u64,
        deadline: Instant,
    ) -> Result<(u64, bool), RpcError> {
        let no_lease = || {
            RpcError::new(
                Reason::NoLease,
                no_lease_text(&self.shared.identity, &self.stores),
            )
        };
        let session = self.shared.session.load().ok_or_else(no_lease)?;
        let table = self.shared.table.load().ok_or_else(no_lease)?;
        let epoch = table.route(slot).map(|r| r.epoch).unwrap_or_default();
        // Runs in a task of its own, so that a caller that hangs up does not leave the slot frozen.
        let mover = self.slot_mover.clone();
        let to = SessionId(to);
        let moving = self
            .shared
            .tasks
            .spawn(async move { mover.move_slot(&session, slot, epoch, to).await });
        let late = |_| {
            let text = format!(
                "slot {slot} is stopped and waits for a store of {} to confirm its move",
                self.stores.address_list()
            );
            RpcError::new(Reason::Unreachable, text)
        };
        let joined = timeout_at(deadline, moving).await.map_err(late)?;
        let (epoch, owner) = joined.map_err(|_| shutting_down_error())??;
        Ok((epoch.0, owner == Some(to)))
    }

    /// Begins, undoes or reports the draining of the AllocSvr with this name.
    pub(crate) async fn drain_by_name(
        &self,
        request: DrainRequest,
        is_identified: bool,
    ) -> Result<DrainResponse, RpcError> {
        let deadline = Instant::now() + OPERATION_TIMEOUT;
        if request.name != self.shared.identity.name {
            let named = self.find_session(&request.name).await?;
            if request.forwarded || named.address == self.shared.identity.address {
                let text = format!("AllocSvr {:?} no longer runs here; retry", request.name);
                return Err(RpcError::new(Reason::NotOwner, text));
            }
            if is_identified {
                let text = format!("AllocSvr {:?} drains itself", request.name);
                return Err(redirect_to(&named.address, &text));
            }
            let request = DrainRequest {
                forwarded: true,
                ..request
            };
            let send = async |mut named: RelayClient| named.drain(request).await;
            return self
                .forward_admin_call(&named.address, deadline, send)
                .await;
        }
        if !request.cancel && !self.slot_mover.tracker.is_draining() {
            let status = self.cluster_status().await?;
            let takes = |s: &&SessionStatus| s.name != self.shared.identity.name && !s.draining;
            if status.sessions.iter().find(takes).is_none() {
                let text = format!(
                    "no other AllocSvr could take the slots of {:?}: start one first",
                    self.shared.identity.name
                );
                return Err(RpcError::new(Reason::Rejected, text));
            }
        }
        self.slot_mover.set_draining(!request.cancel);
        if !self.shared.renewals.renew_and_wait(deadline).await
            || self.shared.session.peek().is_none()
        {
            return Err(RpcError::new(
                Reason::NoLease,
                no_lease_text(&self.shared.identity, &self.stores),
            ));
        }
        Ok(DrainResponse {
            slots: self.slot_mover.owned_slot_count(),
        })
    }

    /// Returns the live session with this name.
    async fn find_session(&self, name: &str) -> Result<SessionStatus, RpcError> {
        let status = self.cluster_status().await?;
        let mut sessions = status.sessions;
        if let Some(found) = sessions.iter().position(|s| s.name == name) {
            return Ok(sessions.swap_remove(found));
        }
        let mut names: Vec<String> = sessions.into_iter().map(|s| s.name).collect();
        names.sort_unstable();
        let text = format!(
            "there is no AllocSvr named {name:?}; there are {}",
            names.join(", ")
        );
        Err(RpcError::new(Reason::Invalid, text))
    }

    async fn cluster_status(&self) -> Result<ClusterStatusResponse, RpcError> {
        self.stores
            .call(
                Instant::now() + STATUS_TIMEOUT,
                STATUS_TIMEOUT / 2,
                |channel| async move {
                    relay_client(&self.shared.own_cluster, channel)
                        .cluster_status(ClusterStatusRequest {})
                        .await
                },
            )
            .await
    }

    async fn forward_admin_call<T>(
        &self,
        address: &str,
        deadline: Instant,
        send: impl AsyncFnOnce(RelayClient) -> Result<tonic::Response<T>, tonic::Status>,
    ) -> Result<T, RpcError> {
        let channel = self.shared.channels.get(address);
        let channel = channel.map_err(|e| RpcError::new(Reason::Unreachable, e.to_string()))?;
        let unreachable = |why: &str| {
            let text = format!("AllocSvr {address} did not answer: {why}; retry");
            RpcError::new(Reason::Unreachable, text)
        };
        match timeout_at(
            deadline,
            send(relay_client(&self.shared.own_cluster, channel)),
        )
        .await
        {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(match local_cause(&status) {
                Some(cause) => unreachable(&cause),
                None => RpcError::from_status(&status),
            }),
            Err(_) => Err(unreachable("it did not answer in time")),
        }
    }
}

/// Returns the answer to a caller with an identity of its own that must call another AllocSvr.
fn redirect_to(address: &str, why: &str) -> RpcError {
    let text = format!("{why}: send the request to {address}");
    RpcError::new(Reason::NotOwner, text).with_leader(Some(address.to_owned()))
}
