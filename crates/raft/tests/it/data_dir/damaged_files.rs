//! Damaged disks: the rows are rebuilt; for any other file the node refuses to start and names it.

use seqsvr_net::TcpTransport;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use seqsvr_core::state::State;
use seqsvr_raft::{Error, Options, RaftNode};

use crate::support::running_node::{
    RunningNode, leader, start_cluster, wait_for_level, wait_until, wait_until_equal,
    wait_until_unlocked, write_session,
};

/// Returns a node with some history on its disk: entries, a snapshot, a purged log.
pub(crate) async fn stopped_node_with_history(dir: &Path) -> (Options, State) {
    let nodes = start_cluster(dir, 1, |o| {
        o.snapshot_interval_entries = 30;
        o.keep_entries = 5;
        o.log_file_bytes = 4 << 10;
    })
    .await;
    wait_for_level(&nodes).await;
    for i in 0..100 {
        write_session(&nodes, &format!("n{i}")).await;
    }
    wait_until("a snapshot and a purge", || {
        nodes[0].node.counters().purged_index > 30
    })
    .await;
    // The position in a round of snapshots differs from process to process. Continue to the middle
    // of a round, where no snapshot is due, and to a log of several files.
    let log = nodes[0].options.data_dir.join("log");
    let is_settled = || {
        let now = nodes[0].node.counters();
        let wals = list_files(&log).into_iter();
        let wals = wals.filter(|f| f.extension().is_some_and(|e| e == "wal"));
        (15..25).contains(&(now.applied_index - now.snapshot_index)) && wals.count() > 1
    };
    for i in 100..400 {
        if is_settled() {
            break;
        }
        write_session(&nodes, &format!("n{i}")).await;
    }
    assert!(is_settled());
    let state = nodes[0].node.with_state(State::clone);
    let node = nodes.into_iter().next().unwrap();
    (node.kill().await, state)
}

pub(crate) async fn assert_restarts_with(options: &Options, state: &State) {
    let node = RunningNode::restart(options.clone()).await.unwrap();
    wait_until("the state is back", || {
        node.node.with_state(State::clone) == *state
    })
    .await;
    node.kill().await;
}

/// Returns the error with which a node rejects this directory, once no process uses it.
pub(crate) async fn open_error(options: &Options) -> Error {
    wait_until_unlocked(&options.data_dir).await;
    open_error_at_once(options).await
}

/// Returns the error with which a node rejects this directory, in use or not.
pub(crate) async fn open_error_at_once(options: &Options) -> Error {
    RaftNode::open(options.clone(), Arc::new(TcpTransport))
        .await
        .map(drop)
        .unwrap_err()
}

pub(crate) fn list_files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.is_file());
    files.sort();
    files
}

fn flip_bit(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

pub(crate) fn count_quarantined(options: &Options) -> usize {
    let entries = fs::read_dir(&options.data_dir).unwrap();
    let names = entries.map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.starts_with("state.bad.")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_rows_are_quarantined_and_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let (options, state) = stopped_node_with_history(dir.path()).await;
    let rows = options.data_dir.join("state");
    let db = rows.join("db");

    assert_restarts_with(&options, &state).await;
    assert_eq!(
        count_quarantined(&options),
        0,
        "sound rows were quarantined"
    );
    fs::write(rows.join("snap.0000000000000001.generating"), b"half").unwrap();
    assert_restarts_with(&options, &state).await;
    assert_eq!(
        count_quarantined(&options),
        0,
        "an unfinished sled snapshot"
    );

    // A byte in every part of the file; damage to an unused byte must change nothing.
    for part in 0..16 {
        let len = fs::metadata(&db).unwrap().len() as usize;
        flip_bit(&db, len * part / 16 + 33);
        assert_restarts_with(&options, &state).await;
    }
    fs::write(&db, vec![0xa5; 64 << 10]).unwrap();
    assert_restarts_with(&options, &state).await;
    assert!(count_quarantined(&options) > 0);
    for keep in [0, 100, 40 << 10] {
        let file = fs::File::options().write(true).open(&db).unwrap();
        file.set_len(keep).unwrap();
        assert_restarts_with(&options, &state).await;
    }
    fs::remove_file(&db).unwrap();
    assert_restarts_with(&options, &state).await;
    for file in list_files(&rows) {
        if file.exists() && file != db {
            fs::write(&file, b"nonsense").unwrap();
            assert_restarts_with(&options, &state).await;
        }
    }
    fs::remove_dir_all(&rows).unwrap();
    assert_restarts_with(&options, &state).await;
    let kept = count_quarantined(&options);
    assert!((1..=3).contains(&kept), "{kept} directories kept aside");

    let nodes = vec![RunningNode::restart(options).await.unwrap()];
    write_session(&nodes, "after").await;
    wait_until_equal(&nodes, ["n0", "n99", "after"].into_iter()).await;
}

/// The node does not continue from rows of another history (an old copy put back).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_older_than_log_are_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |o| {
        o.snapshot_interval_entries = 20;
        o.keep_entries = 2;
    })
    .await;
    write_session(&nodes, "early").await;
    let options = nodes.into_iter().next().unwrap().kill().await;
    let (rows, copy) = (options.data_dir.join("state"), dir.path().join("copy"));
    copy_dir(&rows, &copy);
    let nodes = vec![RunningNode::restart(options).await.unwrap()];
    wait_for_level(&nodes).await;
    for i in 0..60 {
        write_session(&nodes, &format!("n{i}")).await;
    }
    wait_until("a purge", || nodes[0].node.counters().purged_index > 10).await;
    let state = nodes[0].node.with_state(State::clone);
    let options = nodes.into_iter().next().unwrap().kill().await;
    fs::remove_dir_all(&rows).unwrap();
    copy_dir(&copy, &rows);
    assert_restarts_with(&options, &state).await;
    assert_eq!(count_quarantined(&options), 1);
}

pub(crate) fn copy_dir(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).unwrap();
    for file in list_files(from) {
        fs::copy(&file, to.join(file.file_name().unwrap())).unwrap();
    }
}

/// Damages `file` in one way after the other. The node rejects each by name, and starts again after
/// the repair: the rejection changed nothing.
async fn assert_each_damage_is_rejected(options: &Options, file: &Path, state: &State) {
    let good = fs::read(file).unwrap();
    for at in (0..good.len()).step_by((good.len() / 24).max(1)) {
        flip_bit(file, at);
        match open_error(options).await {
            Error::Damaged { file: named, .. } | Error::Version { file: named, .. } => {
                assert!(file.starts_with(&named), "{} at {at}", named.display());
            }
            other => panic!("byte {at} of {}: {other}", file.display()),
        }
        fs::write(file, &good).unwrap();
    }
    assert_restarts_with(options, state).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_snapshot_identity_or_log_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (options, state) = stopped_node_with_history(dir.path()).await;
    let data = options.data_dir.clone();
    let snapshot = list_files(&data.join("snapshots")).pop().unwrap();
    let identity = data.join("identity");
    assert_each_damage_is_rejected(&options, &snapshot, &state).await;
    assert_each_damage_is_rejected(&options, &identity, &state).await;

    for file in [&snapshot, &identity] {
        let good = fs::read(file).unwrap();
        fs::write(file, &good[..good.len() / 2]).unwrap();
        let error = open_error(&options).await;
        assert!(matches!(&error, Error::Damaged { file: f, .. } if f == file));
        fs::remove_file(file).unwrap();
        assert!(matches!(open_error(&options).await, Error::Damaged { .. }));
        fs::write(file, &good).unwrap();
    }
    assert_restarts_with(&options, &state).await;

    // A log file but the last; the records' own checksums distinguish the last one's torn tail from
    // damage, see the tests of the log.
    let log: Vec<PathBuf> = list_files(&data.join("log"));
    let wal = |f: &&PathBuf| f.extension().is_some_and(|e| e == "wal");
    let wals: Vec<&PathBuf> = log.iter().filter(wal).collect();
    assert!(wals.len() > 1, "the history has one log file only");
    let first = wals[0];
    let good = fs::read(first).unwrap();
    for at in (0..good.len()).step_by(good.len() / 12) {
        flip_bit(first, at);
        let error = open_error(&options).await;
        assert!(matches!(error, Error::Damaged { .. }), "byte {at}: {error}");
        fs::write(first, &good).unwrap();
    }
    fs::write(first, &good[..good.len() - 10]).unwrap();
    assert!(matches!(open_error(&options).await, Error::Damaged { .. }));
    fs::write(first, &good).unwrap();
    assert_restarts_with(&options, &state).await;

    let all: Vec<(PathBuf, Vec<u8>)> = wals
        .iter()
        .map(|f| (f.to_path_buf(), fs::read(f).unwrap()))
        .collect();
    for (file, _) in &all {
        fs::remove_file(file).unwrap();
    }
    assert!(matches!(open_error(&options).await, Error::Damaged { .. }));
    for (file, bytes) in &all {
        fs::write(file, bytes).unwrap();
    }
    assert_restarts_with(&options, &state).await;
}

/// The leader's newest snapshot rots on its disk while it runs, and a follower needs it. The leader
/// detects this and builds another, and the follower catches up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_snapshot_of_running_leader_is_rebuilt() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = start_cluster(dir.path(), 3, |o| {
        o.snapshot_interval_entries = 40;
        o.keep_entries = 5;
        o.log_file_bytes = 16 << 10;
    })
    .await;
    let at = (leader(&nodes).await + 1) % nodes.len();
    let late = nodes.remove(at).kill().await;
    let mut names: Vec<String> = Vec::new();
    for i in 0..120 {
        names.push(format!("n{i}"));
        write_session(&nodes, &names[i]).await;
    }
    let led = leader(&nodes).await;
    let leading = &nodes[led];
    // The newest, and no build is under way that would hide the damage: each process builds up to a
    // quarter later than the 40 entries.
    wait_until("a snapshot and a purge", || {
        let now = leading.node.counters();
        now.purged_index > 60 && now.snapshot_index + 50 > now.applied_index
    })
    .await;
    let built = leading.node.counters().snapshots_built;
    let newest = list_files(&leading.options.data_dir.join("snapshots"));
    let newest = newest
        .iter()
        .rfind(|f| f.extension().is_some_and(|e| e == "snapshot"));
    let newest = newest.unwrap();
    let middle = fs::metadata(newest).unwrap().len() as usize / 2;
    flip_bit(newest, middle);
    let term = leading.node.counters().term;

    nodes.push(RunningNode::restart(late).await.unwrap());
    wait_until_equal(&nodes, names.iter().map(String::as_str)).await;
    let now = nodes[led].node.counters();
    assert!(now.snapshots_built > built, "the damaged one was sent");
    assert_eq!(now.term, term, "another leader helped");
    assert_eq!(*nodes[led].node.watch_failure().borrow(), None);
}
