//! The wall clocks of the stores, which libfaketime changes while they run.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use seqsvr_proto::v1::IdsStatus;
use seqsvr_test_support::process_cluster::ProcessCluster;
use tokio::time::sleep;

use crate::scenario::read_unix_ns;

/// Longest time until the leader has read changed clocks.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How far clocks are set wrong.
pub(super) const HOUR_MS: i64 = 3_600_000;
/// Most that right clocks differ.
pub(super) const RIGHT_MS: i64 = 1_000;

/// Returns the library, if it is installed.
fn find_libfaketime() -> Option<PathBuf> {
    let found = std::fs::read_dir("/usr/lib").ok()?.flatten();
    found
        .map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.exists())
}

/// The wall clock of each store of a cluster.
pub(super) struct StoreClocks {
    files: Vec<PathBuf>,
}

impl StoreClocks {
    /// Restarts the stores with clocks that can be set, if libfaketime is installed.
    pub(super) async fn start(cluster: &mut ProcessCluster) -> Option<StoreClocks> {
        let library = find_libfaketime()?.display().to_string();
        let dir = cluster.dir().to_owned();
        let files = (0..cluster.stores.len()).map(|store| dir.join(format!("clock-{store}")));
        let clocks = StoreClocks {
            files: files.collect(),
        };
        for store in 0..cluster.stores.len() {
            clocks.set(store, 0);
            cluster.stop_store(store).await;
            let process = &mut cluster.stores[store];
            process.set_env("LD_PRELOAD", &library);
            let file = clocks.files[store].display().to_string();
            process.set_env("FAKETIME_TIMESTAMP_FILE", &file);
            process.set_env("FAKETIME_NO_CACHE", "1");
            // Only the wall clock is wrong.
            process.set_env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
            cluster.restart_store(store).await;
        }
        Some(clocks)
    }

    /// Sets the clock of a store this far from the true time.
    fn set(&self, store: usize, offset_ms: i64) {
        let file: &Path = &self.files[store];
        let next = file.with_extension("next");
        let offset_s = offset_ms / 1_000;
        std::fs::write(&next, format!("{offset_s:+}\n")).expect("the clock can be set");
        std::fs::rename(&next, file).expect("the clock can be set");
    }

    /// Sets the clock of the leader, and waits until it reads that the others differ.
    pub(super) async fn set_leader(&self, cluster: &ProcessCluster, offset_ms: i64) {
        let mut wrong = None;
        wait_for_clocks(cluster, async |status| {
            let leader = cluster.leader().await;
            // Also if another store leads than at the last look.
            if wrong.replace(leader) != Some(leader) {
                (0..self.files.len()).for_each(|store| self.set(store, 0));
                self.set(leader, offset_ms);
            }
            let others = status.clocks.iter().map(|clock| clock.offset_ms);
            let others = others.filter(|other_ms| (other_ms + offset_ms).abs() < RIGHT_MS);
            others.count() == 2
        })
        .await;
    }

    /// Sets the clocks of all stores, and waits until store time is so far from the true time, in
    /// milliseconds.
    pub(super) async fn set_all(
        &self,
        cluster: &ProcessCluster,
        offset_ms: i64,
        expected_ms: Range<i64>,
    ) {
        (0..self.files.len()).for_each(|store| self.set(store, offset_ms));
        wait_for_clocks(cluster, async |status| {
            let true_ms = (read_unix_ns() / 1_000_000) as i64;
            let mut offsets = status.clocks.iter().map(|clock| clock.offset_ms);
            expected_ms.contains(&(status.store_time_ms as i64 - true_ms))
                && offsets.all(|offset| offset.abs() < RIGHT_MS)
        })
        .await;
    }
}

async fn wait_for_clocks(
    cluster: &ProcessCluster,
    mut is_seen: impl AsyncFnMut(&IdsStatus) -> bool,
) {
    let admin = cluster.new_client().admin();
    let started = Instant::now();
    loop {
        let status = admin.ids_status().await;
        if let Ok(status) = &status
            && is_seen(status).await
        {
            return;
        }
        let is_late = started.elapsed() > CHANGE_TIMEOUT;
        assert!(
            !is_late,
            "the leader does not read the changed clocks: {status:?}"
        );
        sleep(POLL_INTERVAL).await;
    }
}
