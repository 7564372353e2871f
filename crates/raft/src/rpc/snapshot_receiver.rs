//! A received snapshot: its stream and file with their bounds, and the checks before openraft gets
//! it.
//!
//! Invariant: a sender holds the place of the only receiver for a bounded time, and fills at most
//! half of the free space of the disk. Schedule that breaks it: a sender sends one byte every few
//! seconds, and the store never receives the snapshot that it needs; or it sends bytes until the
//! disk is full, and the log accepts no entry.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::{Stream, StreamExt};
use rustix::fs::statvfs;
use seqsvr_net::StreamMeter;
use seqsvr_proto::v1::RaftSnapshotChunk;
use tokio::time::Instant;
use tonic::Status;

use crate::rpc::log_throttle::LogThrottle;
use crate::rpc::status::internal_status;
use crate::state::snapshot::{SnapshotFile, newest_snapshot_bytes};
use crate::storage::data_dir;
use crate::types::SnapshotMeta;

/// Time after which a sender that is silent in the middle of a snapshot is given up.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);
/// Time in which a snapshot must be received; after it the sender is given up.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(600);
/// Time after which a sender must have sent [`BYTES_PER_SECOND_MIN`] on average.
const SLOW_SENDER_GRACE: Duration = Duration::from_secs(30);
/// Bytes a second of the slowest link between two stores; a sender below it is given up.
const BYTES_PER_SECOND_MIN: u64 = 64 << 10;
/// Largest snapshot that is accepted by a store that has none, in bytes.
const FIRST_SNAPSHOT_BYTES_MAX: u64 = 16 << 30;
/// Size up to which a snapshot is accepted for any size of the store's own, in bytes.
const SNAPSHOT_BYTES_MIN: u64 = 1 << 30;
/// Factor by which a snapshot may be larger than the store's own.
const SNAPSHOT_GROWTH_MAX: u64 = 4;

/// Returns the bytes that a snapshot may have: by the size of the newest one here, and by the free
/// space, of which half is left to the log.
pub(crate) fn snapshot_bytes_max(directory: &Path) -> u64 {
    let by_size = match newest_snapshot_bytes(directory) {
        Some(own) => SNAPSHOT_BYTES_MIN.max(own.saturating_mul(SNAPSHOT_GROWTH_MAX)),
        // A new member has nothing to compare with.
        None => FIRST_SNAPSHOT_BYTES_MAX,
    };
    // A system that does not report its free space rejects the bytes that have no room.
    let free = statvfs(directory).map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize));
    free.map_or(by_size, |free| by_size.min(free / 2))
}

/// Chunks of one snapshot as they arrive, within the bounds of time.
pub(crate) struct ChunkStream<S> {
    chunks: S,
    /// Counter of the bytes of messages that this server holds.
    meter: Option<StreamMeter>,
    began: Instant,
    bytes: u64,
}

impl<S: Stream<Item = Result<RaftSnapshotChunk, Status>> + Unpin> ChunkStream<S> {
    pub(crate) fn new(chunks: S, meter: Option<StreamMeter>) -> ChunkStream<S> {
        ChunkStream {
            chunks,
            meter,
            began: Instant::now(),
            bytes: 0,
        }
    }

    /// Receives the next chunk; None at the end.
    ///
    /// # Errors
    /// The sender is too slow, or its stream failed.
    pub(crate) async fn next(&mut self) -> Result<Option<RaftSnapshotChunk>, Status> {
        let time_left = RECEIVE_TIMEOUT.saturating_sub(self.began.elapsed());
        let chunk = tokio::time::timeout(CHUNK_TIMEOUT.min(time_left), self.chunks.next()).await;
        let chunk = match chunk {
            Ok(chunk) => chunk.transpose()?,
            Err(_) => {
                return Err(Status::deadline_exceeded(format!(
                    "the snapshot was not received in time: no chunk within {CHUNK_TIMEOUT:?}, or not all within {RECEIVE_TIMEOUT:?}; send it again"
                )));
            }
        };
        if let Some(meter) = &self.meter {
            meter.message_taken();
        }
        self.bytes += chunk.as_ref().map_or(0, |chunk| chunk.data.len() as u64);
        let elapsed = self.began.elapsed();
        if chunk.is_some()
            && elapsed > SLOW_SENDER_GRACE
            && self.bytes < elapsed.as_secs() * BYTES_PER_SECOND_MIN
        {
            return Err(Status::deadline_exceeded(format!(
                "the snapshot arrives too slowly: {} bytes in {elapsed:?}, at least {BYTES_PER_SECOND_MIN} a second; check the link between the stores",
                self.bytes
            )));
        }
        Ok(chunk)
    }

    /// Writes the data of all chunks, at most `bytes_max` bytes.
    ///
    /// # Errors
    /// The snapshot is larger, its stream ended with an error, or the disk does not take it.
    pub(crate) async fn write_to(&mut self, mut file: File, bytes_max: u64) -> Result<(), Status> {
        while let Some(chunk) = self.next().await? {
            if self.bytes > bytes_max {
                return Err(Status::resource_exhausted(format!(
                    "the snapshot has more than {bytes_max} bytes, which this store accepts by its own snapshot and its free space; give its disk more room"
                )));
            }
            file = seqsvr_os::spawn_blocking(move || file.write_all(&chunk.data).map(|()| file))
                .await
                .map_err(|e| Status::internal(e.to_string()))?
                .map_err(|e| Status::internal(e.to_string()))?;
        }
        Ok(())
    }
}

/// A file being received; deleted unless it became a snapshot under another name.
pub(crate) struct ReceivedFile(pub(crate) PathBuf);

impl ReceivedFile {
    pub(crate) fn create(path: PathBuf) -> Result<ReceivedFile, Status> {
        data_dir::create_private_file(&path).map_err(internal_status)?;
        Ok(ReceivedFile(path))
    }

    pub(crate) fn open_append(&self) -> Result<File, Status> {
        File::options()
            .append(true)
            .open(&self.0)
            .map_err(internal_status)
    }
}

impl Drop for ReceivedFile {
    fn drop(&mut self) {
        // The file is gone if it was installed.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Reads and checks a received file. An incomplete file must be rejected here: openraft treats a
/// snapshot that does not install as a broken disk, and would stop this node.
pub(crate) async fn prepare_snapshot(
    snapshot: SnapshotFile,
    meta: &SnapshotMeta,
    sender: u64,
    log_throttle: &LogThrottle,
) -> Result<SnapshotFile, Status> {
    let prepared = seqsvr_os::spawn_blocking(move || snapshot.into_prepared()).await;
    let prepared = prepared.map_err(|e| Status::internal(e.to_string()))?;
    let snapshot = prepared.map_err(|e| {
        if log_throttle.allow() {
            tracing::warn!(sender, error = %e, "received snapshot rejected as damaged; its sender sends it again");
        }
        Status::data_loss(e.to_string())
    })?;
    match snapshot.prepared_meta() == Some(meta) {
        true => Ok(snapshot),
        false => Err(Status::invalid_argument(
            "the snapshot is not what its sender announced",
        )),
    }
}

#[cfg(test)]
mod tests;
