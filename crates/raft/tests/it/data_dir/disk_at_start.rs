//! Directories a node cannot start on: in use, of another kind, not writable for it, or with files
//! missing. It rejects each with one line that names the path and the remedy. The rejection changes
//! nothing, and the node starts once the damage is undone.

use std::fs;
use std::path::{Path, PathBuf};

use seqsvr_raft::{Error, Options};

use seqsvr_core::state::State;

use super::damaged_files::{
    assert_restarts_with, count_quarantined, list_files, open_error, open_error_at_once,
    stopped_node_with_history,
};
use crate::disk::{Disk, run, skipped};
use crate::support::running_node::{
    RunningNode, start_cluster, wait_for_level, wait_until, write_session,
};

/// Checks for one line that names `path` and contains each of `parts`.
pub(crate) fn assert_names_path(error: &Error, path: &Path, parts: &[&str]) {
    let text = error.to_string();
    println!("rejected: {text}");
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(parts.iter().all(|p| text.contains(p)), "{parts:?}: {text}");
    assert!(!text.contains('\n'), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_dir_in_use_is_rejected_under_every_path() {
    let dir = tempfile::tempdir().unwrap();
    let (options, state) = stopped_node_with_history(dir.path()).await;
    let node = RunningNode::restart(options.clone()).await.unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&options.data_dir, &link).unwrap();
    let through = dir.path().join("link/../link");
    let mut names = vec![options.data_dir.clone(), link, through];
    let bound = dir.path().join("bound");
    if !skipped() {
        fs::create_dir(&bound).unwrap();
        let real = options.data_dir.to_str().unwrap();
        run("mount", &["--bind", real, bound.to_str().unwrap()]).unwrap();
        names.push(bound.clone());
    }
    for name in &names {
        let options = Options {
            data_dir: name.clone(),
            ..options.clone()
        };
        let error = open_error_at_once(&options).await;
        assert!(matches!(error, Error::Locked(_)), "{error}");
        assert_names_path(
            &error,
            name,
            &["in use by another process", "stop that one"],
        );
    }
    if bound.exists() {
        run("umount", &[bound.to_str().unwrap()]).unwrap();
    }
    node.kill().await;
    assert_restarts_with(&options, &state).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn path_of_wrong_kind_is_rejected_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, b"foreign").unwrap();
    for data_dir in [file.clone(), file.join("data")] {
        let options = Options::new(1, "127.0.0.1:1", &data_dir);
        assert_names_path(
            &open_error(&options).await,
            &data_dir,
            &["check --data-dir"],
        );
        assert_eq!(fs::read(&file).unwrap(), b"foreign");
    }

    let (options, state) = stopped_node_with_history(dir.path()).await;
    for part in ["lock", "identity", "log", "snapshots"] {
        let path = options.data_dir.join(part);
        let kept = dir.path().join("kept");
        fs::rename(&path, &kept).unwrap();
        if kept.is_dir() {
            fs::write(&path, b"a file").unwrap();
        } else {
            fs::create_dir(&path).unwrap();
        }
        assert_names_path(&open_error(&options).await, &path, &["another kind"]);
        if kept.is_dir() {
            fs::remove_file(&path).unwrap();
        } else {
            fs::remove_dir(&path).unwrap();
        }
        fs::rename(&kept, &path).unwrap();
        assert_restarts_with(&options, &state).await;
    }
    // The rows are a shortcut: a file in their place is quarantined, and kept.
    let rows = options.data_dir.join("state");
    fs::remove_dir_all(&rows).unwrap();
    fs::write(&rows, b"a file").unwrap();
    assert_restarts_with(&options, &state).await;
    let aside = options.data_dir.join("state.bad.1");
    assert_eq!(fs::read(aside).unwrap(), b"a file");
}

/// Root may write anywhere, but not into a file or directory that is marked immutable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_dir_without_permission_is_rejected() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::sized(dir.path(), "64M").unwrap();
    let (options, state) = stopped_node_with_history(&disk.mount).await;
    let data = options.data_dir.clone();
    for path in [
        data.join("lock"),
        data.join("log"),
        data.join("state"),
        data.join("identity"),
    ] {
        // Making or writing a file there is forbidden; reading is not.
        let all = path.to_str().unwrap();
        if run("chattr", &["-R", "+i", all]).is_err() {
            println!("skipped: no chattr");
            return;
        }
        let started = RunningNode::restart(options.clone()).await;
        match started {
            Err(error) => assert_names_path(&error, &path, &["the user this process runs as"]),
            // The identity is only read; nothing else here is.
            Ok(node) => {
                assert_eq!(path, data.join("identity"));
                node.kill().await;
            }
        }
        run("chattr", &["-R", "-i", all]).unwrap();
        assert_eq!(count_quarantined(&options), 0, "{all} cost the rows");
        assert_restarts_with(&options, &state).await;
    }
    run("chattr", &["+i", disk.path()]).unwrap();
    let other = Options::new(2, "127.0.0.1:1", disk.mount.join("new"));
    let error = open_error(&other).await;
    run("chattr", &["-i", disk.path()]).unwrap();
    assert_names_path(&error, &other.data_dir, &["the user this process runs as"]);
}

/// Removes `path`, checks the rejection, and puts it back.
async fn assert_missing_is_named(options: &Options, path: &Path, named: &Path, part: &str) {
    let kept = options.data_dir.with_extension("kept");
    fs::rename(path, &kept).unwrap();
    let before = read_tree(&options.data_dir);
    let error = open_error(options).await;
    assert!(
        matches!(error, Error::Damaged { .. } | Error::LogLost { .. }),
        "{error}"
    );
    assert_names_path(&error, named, &[part, "Nothing was changed"]);
    let after = read_tree(&options.data_dir);
    let lost: Vec<_> = before.iter().filter(|b| !after.contains(b)).collect();
    assert!(lost.is_empty(), "the rejected start changed {lost:?}");
    let _ = fs::remove_dir(path);
    fs::rename(&kept, path).unwrap();
}

/// Returns every file of a directory with its content, except the rows, which may change.
pub(crate) fn read_tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true if path.file_name().is_some_and(|n| n == "state") => {}
            true => all.extend(read_tree(&path)),
            false => all.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_file_is_named_in_error() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = start_cluster(dir.path(), 1, |o| {
        o.snapshot_interval_entries = 30;
        o.keep_entries = 50;
        o.log_file_bytes = 2 << 10;
    })
    .await;
    wait_for_level(&nodes).await;
    for i in 0..130 {
        write_session(&nodes, &format!("n{i}")).await;
    }
    wait_until("a snapshot and a purge", || {
        nodes[0].node.counters().purged_index > 30
    })
    .await;
    let state = nodes[0].node.with_state(State::clone);
    let options = nodes.into_iter().next().unwrap().kill().await;
    let data = options.data_dir.clone();
    let (log, snapshots) = (data.join("log"), data.join("snapshots"));
    let identity = data.join("identity");
    assert_missing_is_named(&options, &identity, &identity, "it is missing").await;
    assert_missing_is_named(&options, &log, &log, "its files are missing").await;
    assert_missing_is_named(&options, &snapshots, &snapshots, "a snapshot is missing").await;
    for snapshot in list_files(&snapshots) {
        assert_missing_is_named(&options, &snapshot, &snapshots, "a snapshot is missing").await;
    }
    assert_restarts_with(&options, &state).await;
    let wals = list_log_files(&log);
    assert!(wals.len() >= 3, "{wals:?}");
    for (i, wal) in wals.iter().enumerate() {
        let part = match i {
            0 => "missing",
            // Which entry depends on whether a purge was in it.
            last if last == wals.len() - 1 => "(entry ",
            _ => "Gap between chunks",
        };
        assert_missing_is_named(&options, wal, &log, part).await;
    }
    assert_restarts_with(&options, &state).await;
}

pub(crate) fn list_log_files(log: &Path) -> Vec<PathBuf> {
    let mut wals = list_files(log);
    wals.retain(|f| f.extension().is_some_and(|e| e == "wal"));
    wals
}

/// A file that is not ours, beside our files, is left alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_files_in_data_dir_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (options, state) = stopped_node_with_history(dir.path()).await;
    let strange: Vec<PathBuf> = [
        "notes.txt",
        "log/notes.txt",
        "snapshots/notes.txt",
        "snapshots/copy.bak",
    ]
    .iter()
    .map(|f| options.data_dir.join(f))
    .collect();
    for file in &strange {
        fs::write(file, b"foreign").unwrap();
    }
    fs::create_dir(options.data_dir.join("snapshots/old")).unwrap();
    assert_restarts_with(&options, &state).await;
    for file in &strange {
        assert_eq!(fs::read(file).unwrap(), b"foreign", "{}", file.display());
    }
}
