//! openraft's own test suite of a storage, on ours.

use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::*;
use crate::machine::Machine;
use crate::types::TypeConfig;

struct Build;

impl StoreBuilder<TypeConfig, LogStore, Machine, TempDir> for Build {
    async fn build(
        &self,
    ) -> Result<(TempDir, LogStore, Machine), openraft::StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
        let storage = Storage::open(&options).unwrap();
        Ok((dir, storage.log, storage.machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_storage_passes_openrafts_suite() {
    Suite::test_all(Build).await.unwrap();
}
