//! openraft's own test suite of a storage, on ours.

use openraft::testing::log::{StoreBuilder, Suite};
use tempfile::TempDir;

use super::*;
use crate::state::state_machine::StateMachine;
use crate::types::TypeConfig;

struct Build;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for Build {
    async fn build(
        &self,
    ) -> Result<(TempDir, LogStore, StateMachine), openraft::StorageError<TypeConfig>> {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::new(1, "127.0.0.1:1", dir.path().join("data"));
        let storage = Storage::open(&options).unwrap();
        Ok((dir, storage.log, storage.machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn storage_passes_test_suite_of_openraft() {
    Suite::test_all(Build).await.unwrap();
}
