//! `Current` of sections that are not loaded: while one read at the store is under way, the next
//! gathers.
//!
//! Invariant: an answer comes from a read that began after its item arrived. Each of a thousand
//! sections asked for at a time with a read of its own would fill the connection to the store, and
//! the renewals of the lease would wait behind them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::id::{Epoch, SectionKey, Slot};
use seqsvr_proto::error::Fault;
use seqsvr_proto::limits::READ_MAX;
use seqsvr_proto::v1::{ReadRequest, Reason, SectionRef};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::node::Node;

/// Most sections waiting for a read.
const WAITING_MAX: usize = 50_000;
/// Most sections of one read, each with its slot: few enough that what else the store does goes on.
const SECTIONS_MAX: usize = READ_MAX / 8;
/// How long one read may take before the callers' items are tried anew.
const READ_FOR: Duration = Duration::from_secs(1);

/// What a read found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfirmedSection {
    pub(crate) max_seq: u64,
    /// Of the section's slot, in the same read.
    pub(crate) epoch: Epoch,
}

type PendingRead = (
    SectionKey,
    Slot,
    oneshot::Sender<Result<ConfirmedSection, Fault>>,
);

/// Sections waiting for the next read.
#[derive(Default)]
pub(crate) struct SectionReader {
    waiting: Mutex<Vec<PendingRead>>,
    ready: Notify,
}

impl Node {
    /// Reads a section and its slot at the store, in a read that begins after now.
    pub(crate) async fn read_section(
        &self,
        section: SectionKey,
        slot: Slot,
    ) -> Result<ConfirmedSection, Fault> {
        let (tx, rx) = oneshot::channel();
        {
            let mut waiting = self.reads.waiting.lock();
            if waiting.len() >= WAITING_MAX {
                let text = "too many sections wait to be read at the store; retry later";
                return Err(Fault::new(Reason::TooMany, text).with_retry_after_ms(100));
            }
            waiting.push((section, slot, tx));
        }
        self.reads.ready.notify_one();
        let stopping = |_| Fault::new(Reason::Unreachable, "this AllocSvr is shutting down");
        rx.await.map_err(stopping)?
    }

    /// Reads until cancelled.
    pub(crate) async fn run_reads(self: Arc<Self>, cancel: CancellationToken) {
        while cancel
            .run_until_cancelled(self.reads.ready.notified())
            .await
            .is_some()
        {
            loop {
                let mut asked = {
                    let mut waiting = self.reads.waiting.lock();
                    let n = waiting.len().min(SECTIONS_MAX);
                    waiting.drain(..n).collect::<Vec<_>>()
                };
                if asked.is_empty() {
                    break;
                }
                asked.retain(|(_, _, tx)| !tx.is_closed());
                if !asked.is_empty() {
                    self.read_all(asked).await;
                }
            }
        }
        self.reads.waiting.lock().clear();
    }

    async fn read_all(&self, asked: Vec<PendingRead>) {
        let sections = asked.iter().map(|(section, ..)| SectionRef {
            namespace: section.namespace.0,
            section: section.section.0,
        });
        let request = ReadRequest {
            sections: sections.collect(),
            slots: asked.iter().map(|(_, slot, _)| u32::from(slot.0)).collect(),
            ..ReadRequest::default()
        };
        let read = self
            .stores
            .send(
                Instant::now() + READ_FOR,
                READ_FOR,
                request,
                |mut store, request| async move { store.read(request).await },
            )
            .await
            .and_then(|read| {
                let whole = read.sections.len() == asked.len() && read.epochs.len() == asked.len();
                let short = "the store answered another number of sections";
                whole
                    .then_some(read)
                    .ok_or_else(|| Fault::new(Reason::Unspecified, short))
            });
        for (at, (_, _, tx)) in asked.into_iter().enumerate() {
            let row = read
                .as_ref()
                .map_err(Clone::clone)
                .map(|read| ConfirmedSection {
                    max_seq: read.sections[at].max_seq,
                    epoch: Epoch(read.epochs[at]),
                });
            // Whoever is gone needs no answer.
            let _ = tx.send(row);
        }
    }
}
