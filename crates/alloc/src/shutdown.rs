//! A planned end: hand back the true highest numbers and end the session, so that the next owner
//! starts at once and no number is skipped. What could be handed over slot by slot is gone by then.
//!
//! Invariant: the session ends in this process before its finals are taken, so a final covers every
//! number handed out; and after the first chunk was sent this process never serves in it again.

use std::sync::Arc;
use std::time::Duration;

use seqsvr_core::command::FINALS_MAX;
use seqsvr_proto::v1::{CloseSessionRequest, SectionFinal};
use tokio::time::{Instant, timeout};

use crate::node::Node;

/// How long the stores are asked for one chunk.
const DEADLINE: Duration = Duration::from_secs(3);
/// How long what is being opened or closed is waited for; what takes longer costs a gap.
const QUIET_MAX: Duration = Duration::from_secs(2);

impl Node {
    /// Ends the session; the keeper must have stopped.
    pub(crate) async fn close_session(self: &Arc<Self>) {
        let Some(session) = self.session.swap(None) else {
            return;
        };
        // No move begins any more; those under way have noted what they took out.
        self.moves.all_noted().await;
        // A close under way would come after the end of the session, and be refused.
        let _ = timeout(QUIET_MAX, self.sections.all_quiet()).await;
        let mut finals = self.sections.all_unsure();
        for loaded in self.sections.end_session(&session) {
            let value = loaded.drained().await;
            let fence = Some(loaded.fence.into());
            finals.push(SectionFinal {
                fence,
                generation: loaded.generation.0,
                value,
            });
        }
        let mut chunks: Vec<Vec<SectionFinal>> =
            finals.chunks(FINALS_MAX).map(<[_]>::to_vec).collect();
        if chunks.is_empty() {
            chunks.push(Vec::new());
        }
        let count = chunks.len();
        for (i, finals) in chunks.into_iter().enumerate() {
            let request = CloseSessionRequest {
                session: session.id.0,
                finals,
                last: i + 1 == count,
                ..CloseSessionRequest::default()
            };
            let closed = self
                .stores
                .send(
                    Instant::now() + DEADLINE,
                    DEADLINE / 3,
                    request,
                    |mut store, request| async move { store.close_session(request).await },
                )
                .await;
            if let Err(fault) = closed {
                tracing::warn!(%fault, "session not closed; the store will expire it and its sections jump by their open windows");
                return;
            }
        }
        tracing::info!(session = %session.id, "session closed");
    }
}
