//! Makes a backup of a data directory whose store does not run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use seqsvr_core::state::State;
use seqsvr_raft::{Error, backup, salvage};

use crate::restore::{close_section, open_section, test_section};
use crate::support::running_node::{
    leader, start_cluster, wait_for_level, wait_until, wait_until_equal, wait_until_unlocked,
    write_session,
};

/// Returns the bytes of all files below a directory, without the lock.
fn read_contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(read_contents(&path));
        } else {
            let bytes = std::fs::read(&path).unwrap();
            all.insert(path, bytes);
        }
    }
    all
}

/// Two of three directories are lost. The third one has all acknowledged entries, in a snapshot and
/// the log behind it. Reading it changes nothing in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn salvage_backs_up_state_of_surviving_data_dir() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(&dir.path().join("old"), 3, |o| {
        o.snapshot_interval_entries = 30;
        o.keep_entries = 5;
        o.log_file_bytes = 4 << 10;
    })
    .await;
    wait_for_level(&nodes).await;
    write_session(&nodes, "owner").await;
    open_section(&nodes[leader(&nodes).await].node).await;
    let mut names = Vec::new();
    for i in 0..100 {
        names.push(format!("n{i}"));
        write_session(&nodes, &names[i]).await;
    }
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    let state = nodes[0].node.with_state(State::clone);
    let running = salvage::read_data_dir(&nodes[2].options.data_dir, &dir.path().join("s0")).await;
    assert!(matches!(running, Err(Error::Locked(_))), "{running:?}");
    let mut survivor = None;
    for node in nodes {
        survivor = Some(node.kill().await);
    }
    let data = survivor.unwrap().data_dir;
    wait_until_unlocked(&data).await;
    let before = read_contents(&data);
    assert!(
        before
            .keys()
            .any(|f| f.extension().is_some_and(|e| e == "snapshot"))
    );

    let salvaged = salvage::read_data_dir(&data, &dir.path().join("s1"))
        .await
        .unwrap();
    assert_eq!(
        read_contents(&data),
        before,
        "salvaging changed the directory"
    );
    assert_eq!(salvaged.backup.state, state.for_backup());
    let seen = &salvaged.backup.header.usage;
    assert!(
        seen.taken_at > 1_700_000_000 && seen.watched_secs == 0,
        "{seen:?}"
    );
    let file = dir.path().join("backup");
    let mut bytes = Vec::new();
    salvaged.backup.write(&mut bytes).unwrap();
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(backup::read_backup_file(&file).unwrap(), salvaged.backup);

    let empty = dir.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let rejection = salvage::read_data_dir(&empty, &dir.path().join("s2")).await;
    assert!(matches!(rejection, Err(Error::Options(_))), "{rejection:?}");
    assert!(read_contents(&empty).is_empty(), "something was made in it");
}

/// The log's last entry closes a section and is not known to be committed: it may not lower
/// max_seq.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn salvage_of_uncommitted_close_does_not_lower_max_seq() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 2, |_| {}).await;
    write_session(&nodes, "owner").await;
    let led = leader(&nodes).await;
    open_section(&nodes[led].node).await;
    wait_until_equal(&nodes, ["owner"].into_iter()).await;
    let max_seq = |state: &State| state.section(test_section()).unwrap().max_seq;
    let window = nodes[led].node.with_state(max_seq);
    let leading = nodes.remove(led);
    nodes.remove(0).kill().await;
    // Written here, acknowledged by no other node.
    let node = leading.node.clone();
    let closing = tokio::spawn(async move { close_section(&node).await });
    let last = leading.node.counters().last_log_index;
    wait_until("the close is in the log", || {
        leading.node.counters().last_log_index > last
    })
    .await;
    let data = leading.kill().await.data_dir;
    closing.abort();
    wait_until_unlocked(&data).await;
    let salvaged = salvage::read_data_dir(&data, &dir.path().join("s1"))
        .await
        .unwrap();
    assert!(salvaged.unconfirmed > 0);
    assert_eq!(max_seq(&salvaged.backup.state), window);
}
