//! A received snapshot: its file, and the checks before openraft gets it.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use seqsvr_proto::v1::RaftSnapshotChunk;
use tonic::{Status, Streaming};

use crate::rpc::log_throttle::LogThrottle;
use crate::rpc::status::internal_status;
use crate::storage::snapshot::SnapshotFile;
use crate::types::SnapshotMeta;

/// Time after which a sender that is silent in the middle of a snapshot is given up.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest snapshot that is accepted, in bytes.
const SNAPSHOT_BYTES_MAX: u64 = 16 << 30;

/// A file being received; deleted unless it became a snapshot under another name.
pub(crate) struct ReceivedFile(pub(crate) PathBuf);

impl ReceivedFile {
    pub(crate) fn create(path: PathBuf) -> Result<ReceivedFile, Status> {
        File::create(&path).map_err(internal_status)?;
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

/// Receives the next chunk of a snapshot; None at the end.
pub(crate) async fn next_chunk(
    chunks: &mut Streaming<RaftSnapshotChunk>,
) -> Result<Option<RaftSnapshotChunk>, Status> {
    match tokio::time::timeout(CHUNK_TIMEOUT, chunks.message()).await {
        Ok(chunk) => chunk,
        Err(_) => Err(Status::deadline_exceeded(
            "no chunk of the snapshot came in time",
        )),
    }
}

/// Stores the data of all chunks.
pub(crate) async fn write_chunks(
    mut file: File,
    chunks: &mut Streaming<RaftSnapshotChunk>,
) -> Result<(), Status> {
    let mut bytes = 0;
    while let Some(chunk) = next_chunk(chunks).await? {
        bytes += chunk.data.len() as u64;
        if bytes > SNAPSHOT_BYTES_MAX {
            return Err(Status::resource_exhausted("the snapshot is too large"));
        }
        file = seqsvr_os::spawn_blocking(move || file.write_all(&chunk.data).map(|()| file))
            .await
            .map_err(|e| Status::internal(e.to_string()))?
            .map_err(|e| Status::internal(e.to_string()))?;
    }
    Ok(())
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
