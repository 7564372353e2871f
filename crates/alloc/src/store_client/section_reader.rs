//! Reads sections that are not loaded, for `Current`: while one read at the store is in flight, the
//! next collects.
//!
//! Invariant: an answer comes from a read that began after its item arrived. Reads are batched,
//! because a thousand sections, each with a read of its own, would fill the connection to the
//! store, and the renewals of the lease would wait behind them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use seqsvr_core::ids::{Epoch, SectionKey, Slot};
use seqsvr_proto::error::RpcError;
use seqsvr_proto::limits::READ_ROWS_MAX;
use seqsvr_proto::v1::{ReadRequest, Reason, SectionRef};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::store_client::store_group::StoreGroupClient;
use crate::store_client::unavailable::shutting_down_error;

/// Maximum sections that wait for a read; above it calls are rejected with a retry hint.
const PENDING_READS_MAX: usize = 50_000;
/// Maximum sections of one read, each with its slot; above it they wait for the next read. Few
/// enough that the store can do its other work.
const SECTIONS_PER_READ_MAX: usize = READ_ROWS_MAX / 8;
/// Maximum time of one read; after it the items of its callers are retried.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Max_seq of a section and epoch of its slot, as read at the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConfirmedSection {
    pub(crate) max_seq: u64,
    /// Epoch of the section's slot, in the same read.
    pub(crate) epoch: Epoch,
}

type PendingRead = (
    SectionKey,
    Slot,
    oneshot::Sender<Result<ConfirmedSection, RpcError>>,
);

/// Queue of sections that wait for the next read.
pub(crate) struct SectionReader {
    stores: StoreGroupClient,
    pending: Mutex<Vec<PendingRead>>,
    ready: Notify,
}

impl SectionReader {
    pub(crate) fn new(stores: StoreGroupClient) -> SectionReader {
        SectionReader {
            stores,
            pending: Mutex::default(),
            ready: Notify::new(),
        }
    }

    /// Reads a section and its slot at the store, in a read that begins after now.
    pub(crate) async fn read(
        &self,
        section: SectionKey,
        slot: Slot,
    ) -> Result<ConfirmedSection, RpcError> {
        let (tx, rx) = oneshot::channel();
        {
            let mut pending = self.pending.lock();
            if pending.len() >= PENDING_READS_MAX {
                let text = format!(
                    "too many sections wait to be read at the store: at most {PENDING_READS_MAX}; retry later"
                );
                return Err(RpcError::new(Reason::Overloaded, text).with_retry_after_ms(100));
            }
            pending.push((section, slot, tx));
        }
        self.ready.notify_one();
        rx.await.unwrap_or_else(|_| Err(shutting_down_error()))
    }

    /// Reads until canceled.
    pub(crate) async fn run(self: Arc<Self>, cancel: CancellationToken) {
        while cancel
            .run_until_cancelled(self.ready.notified())
            .await
            .is_some()
        {
            loop {
                let mut batch = {
                    let mut pending = self.pending.lock();
                    let n = pending.len().min(SECTIONS_PER_READ_MAX);
                    pending.drain(..n).collect::<Vec<_>>()
                };
                if batch.is_empty() {
                    break;
                }
                batch.retain(|(_, _, tx)| !tx.is_closed());
                if !batch.is_empty() {
                    read_batch(&self.stores, batch).await;
                }
            }
        }
        self.pending.lock().clear();
    }
}

/// Reads these sections in one request and sends each caller its row.
async fn read_batch(stores: &StoreGroupClient, batch: Vec<PendingRead>) {
    let sections = batch.iter().map(|(section, ..)| SectionRef {
        namespace: section.namespace.0,
        section: section.section.0,
    });
    let request = ReadRequest {
        sections: sections.collect(),
        slots: batch.iter().map(|(_, slot, _)| u32::from(slot.0)).collect(),
        ..ReadRequest::default()
    };
    let read = stores
        .send(
            Instant::now() + READ_TIMEOUT,
            READ_TIMEOUT,
            request,
            |mut store, request| async move { store.read(request).await },
        )
        .await
        .and_then(|read| {
            let is_complete =
                read.sections.len() == batch.len() && read.epochs.len() == batch.len();
            let mismatch = "internal error: the store returned another number of sections";
            is_complete
                .then_some(read)
                .ok_or_else(|| RpcError::new(Reason::Unspecified, mismatch))
        });
    for (index, (_, _, tx)) in batch.into_iter().enumerate() {
        let row = read
            .as_ref()
            .map_err(Clone::clone)
            .map(|read| ConfirmedSection {
                max_seq: read.sections[index].max_seq,
                epoch: Epoch(read.epochs[index]),
            });
        // The caller may have gone away.
        let _ = tx.send(row);
    }
}
