//! Planned moves: a slot is frozen, and handed to another owner together with the true highest
//! numbers of its sections, in one step of the store (DESIGN 5.7).
//!
//! Invariant: a slot frozen at epoch e is never again served at e by this process. Before its
//! high-water marks are taken, none of its sections can be opened, all of them are sealed, and all
//! callers that were inside have left. So a high-water mark covers every number handed out, and the
//! next owner starts right above.
//!
//! Schedules that would break it, and what prevents each:
//! - *An Open is in flight while the slot is frozen*; its object is published after the high-water
//!   marks were taken, and serves numbers that the next owner hands out as well. Hence freezing
//!   bars new Opens under the lock that publishes, then waits for those in flight, then seals.
//! - *The response of the move is lost*; the owner takes it for failed and continues to serve.
//!   Hence the slot stays frozen until a table shows a later epoch, and the move is repeated until
//!   then.
//! - *The session is closed while a move is in progress*: the slot's high-water marks, removed from
//!   the map, are in the move only, and the end of the session overtakes it. Hence they are
//!   recorded as well, before the session may be closed.
//! - *A close without an answer* leaves a window open, and the next owner would start above it.
//!   Hence its high-water mark is repeated with the move (only tightness is at stake, ADR 0007).

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::time::Duration;

use seqsvr_core::command::HIGH_WATER_MARKS_MAX;
use seqsvr_core::ids::{Epoch, SessionId, Slot};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::v1::{MoveSlotRequest, PlannedMove, Reason, SectionHighWaterMark};
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::sections::section_map::SectionMap;
use crate::session::leased_session::LeasedSession;
use crate::shared_parts::SharedParts;
use crate::slots::slot_move_tracker::{PLANNED_UNKNOWN, SlotMoveTracker};
use crate::store_client::command_queue::CommandQueue;
use crate::store_client::store_group::StoreGroupClient;

/// Maximum time to send a move to the stores before the state of the slot is checked again.
const MOVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time of one attempt at one store; after it the next store is tried.
const MOVE_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// Hands slots over to other owners.
pub(crate) struct SlotMover {
    pub(crate) shared: SharedParts,
    pub(crate) sections: Arc<SectionMap>,
    pub(crate) stores: StoreGroupClient,
    pub(crate) command_queue: CommandQueue,
    /// Runtime of the moves: the thread that renews the lease only starts them.
    pub(crate) runtime: Handle,
    pub(crate) tracker: SlotMoveTracker,
}

impl SlotMover {
    /// Sets whether this node drains, and sends it to the store at once.
    pub(crate) fn set_draining(&self, draining: bool) {
        if self.tracker.is_draining.swap(draining, AcqRel) != draining {
            self.tracker.planned_count.store(PLANNED_UNKNOWN, Release);
        }
        self.shared.renewals.request_renewal();
    }

    /// Returns the number of slots that this node owns by its table.
    pub(crate) fn owned_slot_count(&self) -> u32 {
        let (Some(table), Some(session)) = (self.shared.table.load(), self.shared.session.load())
        else {
            return 0;
        };
        let mine = table.routes().filter(|(_, route)| {
            let owner = route.owner.as_ref();
            owner.is_some_and(|o| o.session == session.id)
        });
        mine.count() as u32
    }

    /// Hands all slots over to other AllocSvrs, if there are any, until the deadline.
    pub(crate) async fn drain_slots(self: &Arc<Self>, deadline: Instant) {
        self.set_draining(true);
        while Instant::now() < deadline && self.shared.session.has_lease() {
            // A renewal that started after `is_draining` was set brings the plan and the table.
            let renewed = self.shared.renewals.renew_and_wait(deadline).await;
            if renewed
                && (self.owned_slot_count() == 0 || self.tracker.planned_count.load(Acquire) == 0)
            {
                return;
            }
        }
    }

    /// Starts the moves that the store has planned for this session.
    pub(crate) fn start_planned_moves(
        self: &Arc<Self>,
        session: &Arc<LeasedSession>,
        sent_draining: bool,
        planned_count: u32,
        moves: &[PlannedMove],
    ) {
        if sent_draining == self.tracker.is_draining() {
            self.tracker.planned_count.store(planned_count, Release);
        }
        for planned_move in moves {
            let Ok(slot) = u16::try_from(planned_move.slot).map(Slot) else {
                continue;
            };
            let (mover, session) = (self.clone(), session.clone());
            let (epoch, to) = (
                Epoch(planned_move.epoch),
                SessionId(planned_move.target_session),
            );
            if !self.tracker.in_progress.lock().insert((slot, epoch)) {
                continue;
            }
            let moving = async move {
                if let Err(fault) = mover.move_slot(&session, slot, epoch, to).await {
                    tracing::debug!(%slot, %fault, "planned slot move failed");
                }
                mover.tracker.in_progress.lock().remove(&(slot, epoch));
            };
            self.shared.tasks.spawn_on(moving, &self.runtime);
        }
    }

    /// Moves a slot that this session owns at `epoch`. Returns the epoch after the move, and the
    /// owner then (None: no owner, or unknown). Must not be dropped before it ends: spawn it.
    pub(crate) async fn move_slot(
        self: &Arc<Self>,
        session: &Arc<LeasedSession>,
        slot: Slot,
        epoch: Epoch,
        to: SessionId,
    ) -> Result<(Epoch, Option<SessionId>), RpcError> {
        // The semaphore is never closed, so an error cannot occur.
        let _permit = self.tracker.permits.acquire().await;
        let collecting = self.tracker.collecting.read().await;
        if !self.is_slot_owner(session, slot, epoch) || !self.sections.freeze_slot(slot, epoch) {
            let text = format!("slot {slot} is no longer at epoch {epoch}, or is already moving");
            return Err(RpcError::new(Reason::NotOwner, text));
        }
        let high_water_marks = self.collect_high_water_marks(slot, epoch).await;
        self.sections.record_high_water_marks(&high_water_marks);
        drop(collecting);
        let mut request = MoveSlotRequest {
            session: session.id.0,
            slot: u32::from(slot.0),
            epoch: epoch.0,
            high_water_marks: self.send_overflow_high_water_marks(high_water_marks).await,
            target_session: to.0,
            ..MoveSlotRequest::default()
        };
        loop {
            let moved = self
                .stores
                .send(
                    Instant::now() + MOVE_TIMEOUT,
                    MOVE_ATTEMPT_TIMEOUT,
                    request.clone(),
                    |mut store, request| async move { store.move_slot(request).await },
                )
                .await;
            let fault = match moved {
                Ok(moved) => {
                    self.shared.counters.slots_moved.add(1);
                    // Rebalancing goes at the pace of renewals. A draining node requests more moves
                    // at once.
                    if self.tracker.is_draining() {
                        self.shared.renewals.request_renewal();
                    }
                    // The response has no table version and no address, so it changes no route
                    // here. A table that changed within a version would be passed on to clients,
                    // and no later delta would correct it. The slot stays frozen until a table
                    // shows the later epoch.
                    let owner = Some(SessionId(moved.owner)).filter(|id| id.0 != 0);
                    return Ok((Epoch(moved.epoch), owner));
                }
                Err(fault) => fault,
            };
            // An earlier attempt may have been applied and its response lost, or the session may
            // have expired.
            self.shared
                .renewals
                .renew_and_wait(Instant::now() + MOVE_ATTEMPT_TIMEOUT)
                .await;
            match self.epoch_and_owner(slot) {
                Some((now, owner)) if now > epoch => {
                    self.shared.counters.slots_moved.add(1);
                    return Ok((now, owner));
                }
                _ if !session.is_alive() => return Err(fault),
                _ => {}
            }
            tracing::debug!(%slot, %fault, "retrying slot move");
            if fault.reason() == Reason::Invalid {
                // Only the high-water marks can be at fault. Without them the sections skip their
                // windows.
                request.high_water_marks.clear();
            }
            self.shared.random.back_off().await;
        }
    }

    fn is_slot_owner(&self, session: &Arc<LeasedSession>, slot: Slot, epoch: Epoch) -> bool {
        let current = self.shared.session.peek();
        let current = current.as_ref().is_some_and(|s| Arc::ptr_eq(s, session));
        current
            && session.is_alive()
            && self.epoch_and_owner(slot) == Some((epoch, Some(session.id)))
    }

    /// Returns the epoch and the owner of a slot by the newest table here.
    fn epoch_and_owner(&self, slot: Slot) -> Option<(Epoch, Option<SessionId>)> {
        let table = self.shared.table.load()?;
        let route = table.route(slot)?;
        Some((route.epoch, route.owner.as_ref().map(|o| o.session)))
    }

    /// Returns the true high-water marks of a frozen slot.
    async fn collect_high_water_marks(
        &self,
        slot: Slot,
        epoch: Epoch,
    ) -> Vec<SectionHighWaterMark> {
        self.sections.wait_until_idle(slot).await;
        let mut high_water_marks = self.sections.unconfirmed_closes(slot, epoch);
        for loaded in self.sections.retire_slot(slot, epoch) {
            high_water_marks.push(loaded.wait_drained().await);
        }
        high_water_marks
    }

    /// Sends the high-water marks that one move cannot carry as closes before it, and returns the
    /// rest. A close that fails costs a gap.
    async fn send_overflow_high_water_marks(
        &self,
        mut high_water_marks: Vec<SectionHighWaterMark>,
    ) -> Vec<SectionHighWaterMark> {
        let rest = high_water_marks.split_off(high_water_marks.len().min(HIGH_WATER_MARKS_MAX));
        let closes = rest
            .iter()
            .map(|last| self.command_queue.submit_close(last));
        for closed in futures::future::join_all(closes).await {
            if let Err(fault) = closed {
                tracing::debug!(%fault, "section moved without its high-water mark");
            }
        }
        high_water_marks
    }
}

#[cfg(test)]
mod tests;
