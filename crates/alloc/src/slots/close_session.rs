//! Planned end of a session: hands back the true highest numbers and ends the session. So the next
//! owner starts at once, and each section continues right above the highest number used in it.
//! Slots that could be handed over one by one are gone by then.
//!
//! Invariant: the session ends in this process before its high-water marks are taken, so a
//! high-water mark covers every number handed out. After the first chunk was sent, this process
//! never serves in the session again.

use std::time::Duration;

use seqsvr_core::command::HIGH_WATER_MARKS_MAX;
use seqsvr_proto::v1::{CloseSessionRequest, SectionHighWaterMark};
use tokio::time::{Instant, timeout_at};

use crate::sections::section_map::SectionMap;
use crate::session::current_session::CurrentSession;
use crate::slots::slot_move_tracker::SlotMoveTracker;
use crate::store_client::store_group::StoreGroupClient;

/// Maximum time to send one chunk; after it the close fails.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum wait for moves, opens and closes in progress. Those that take longer cost a gap.
const IDLE_WAIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time to send all chunks; after it the close fails.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(8);

/// Ends the session. The lease keeper must have stopped.
pub(crate) async fn close_session(
    current: &CurrentSession,
    sections: &SectionMap,
    moves: &SlotMoveTracker,
    stores: &StoreGroupClient,
) {
    let Some(session) = current.replace(None) else {
        return;
    };
    // Invariant: each wait of a shutdown has a limit, and all together stay below the 30 s
    // after which the service manager kills the process. Schedule that breaks it: the stores
    // are unreachable, and 10,000 Opens wait for them; a move waits for those of its slot, and
    // the shutdown for the move.
    //
    // No move begins from here on. Moves in progress that removed sections have recorded the
    // high-water marks of those. A move that has not come so far has removed nothing: its sections
    // are found below, like all others.
    let idle_deadline = Instant::now() + IDLE_WAIT_TIMEOUT;
    let _ = timeout_at(idle_deadline, moves.wait_until_high_water_marks_recorded()).await;
    // A close in progress would arrive after the end of the session, and be rejected.
    let _ = timeout_at(idle_deadline, sections.wait_until_all_idle()).await;
    let mut high_water_marks = sections.all_unconfirmed_closes();
    for loaded in sections.end_session(&session) {
        high_water_marks.push(loaded.wait_drained().await);
    }
    let mut chunks: Vec<Vec<SectionHighWaterMark>> = high_water_marks
        .chunks(HIGH_WATER_MARKS_MAX)
        .map(<[_]>::to_vec)
        .collect();
    if chunks.is_empty() {
        chunks.push(Vec::new());
    }
    let count = chunks.len();
    let end = Instant::now() + CLOSE_TIMEOUT;
    for (i, high_water_marks) in chunks.into_iter().enumerate() {
        let request = CloseSessionRequest {
            session: session.id.0,
            high_water_marks,
            last: i + 1 == count,
            ..CloseSessionRequest::default()
        };
        let closed = stores
            .send(
                end.min(Instant::now() + CHUNK_TIMEOUT),
                CHUNK_TIMEOUT / 3,
                request,
                |mut store, request| async move { store.close_session(request).await },
            )
            .await;
        if let Err(fault) = closed {
            tracing::warn!(%fault, "session not closed; the store expires it, and its sections skip to the end of their windows");
            return;
        }
    }
    tracing::info!(session = %session.id, "session closed");
}

#[cfg(test)]
mod tests {
    use seqsvr_core::command::Fence;
    use seqsvr_core::ids::{Epoch, NamespaceId, SectionId, SectionKey, SessionId};

    use super::*;
    use crate::fast_path::tests::FastPathFixture;

    const OPENS: u32 = 3_000;

    /// Schedule: no store answers; thousands of Opens wait, and a move waits for those of its slot.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn close_session_without_store_is_bounded() {
        let fixture = FastPathFixture::new().await;
        let (sections, session) = (&fixture.sections, fixture.session.clone());
        let slot_mover = &fixture.alloc.components.slot_mover;
        let table = fixture.table.load().unwrap();
        let fence = |section| {
            let key = SectionKey {
                namespace: NamespaceId(1),
                section: SectionId(section),
            };
            Fence {
                slot: table.slot_of(key),
                epoch: Epoch(1),
                section: key,
            }
        };
        let under_way = || sections.transitions.lock().in_progress.len();
        for section in 0..OPENS {
            let (lifecycle, session) = (fixture.slow_path.lifecycle.clone(), session.clone());
            let fence = fence(10_000 + section);
            tokio::spawn(async move { lifecycle.open_section(fence, session).await });
        }
        while under_way() < OPENS as usize {
            tokio::task::yield_now().await;
        }
        // The slot of the last Open waits longest.
        let slot = fence(10_000 + OPENS - 1).slot;
        let moving = (slot_mover.clone(), session.clone());
        tokio::spawn(async move {
            let (slot_mover, session) = moving;
            slot_mover
                .move_slot(&session, slot, Epoch(1), SessionId(2))
                .await
        });
        while !sections.is_frozen(slot, Epoch(1)) {
            tokio::task::yield_now().await;
        }
        let tracker = &slot_mover.tracker;
        let closing = close_session(
            &fixture.current_session,
            sections,
            tracker,
            &fixture.alloc.components.stores,
        );
        let bound = IDLE_WAIT_TIMEOUT + CLOSE_TIMEOUT;
        let closed = tokio::time::timeout(bound, closing).await;
        assert!(closed.is_ok(), "not closed after {bound:?}");
        assert!(!session.is_alive() && under_way() > 0);
    }
}
