//! `seqsvr backup` and `seqsvr restore` as an operator runs them, and their output.

use std::path::Path;
use std::process::Output;

use seqsvr_test_support::process::run_command;
use seqsvr_test_support::process_cluster::ProcessCluster;

pub(super) async fn run_backup(cluster: &ProcessCluster, file: &Path) -> Output {
    let servers = cluster.alloc_addresses.join(",");
    run_command(&["backup", path_text(file), "--server", &servers]).await
}

/// Runs `seqsvr restore` of the first store with these margins.
pub(super) async fn run_restore(
    cluster: &ProcessCluster,
    file: &Path,
    dir: &Path,
    margins: &[(&str, &str)],
) -> Output {
    let mut args = vec!["restore", path_text(file), "--id", "1"];
    args.extend(["--listen", &cluster.store_addresses[0], "--data-dir"]);
    args.push(path_text(dir));
    for (flag, value) in margins {
        args.extend([*flag, *value]);
    }
    run_command(&args).await
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Asserts that a restore was rejected with these words and created nothing. Returns its errors.
pub(super) fn assert_restore_rejected(output: &Output, dir: &Path, words: &[&str]) -> String {
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{output:?}");
    for word in words {
        assert!(errors.contains(word), "no {word:?} in: {errors}");
    }
    assert!(!dir.exists(), "{} was created", dir.display());
    errors
}

pub(super) fn assert_success(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the minimum of a margin, as the rejection states it.
pub(super) fn parse_minimum(rejection: &str, flag: &str) -> String {
    let line = rejection.lines().find(|l| l.trim_start().starts_with(flag));
    let (_, least) = line.and_then(|l| l.rsplit_once("at least ")).expect(flag);
    least.trim().to_owned()
}

/// Starts the restored store, joins the others on new directories, and starts `allocs` AllocSvrs.
pub(super) async fn start_restored_cluster(
    cluster: &mut ProcessCluster,
    dir: &Path,
    allocs: usize,
) {
    cluster.stores[0].set_arg("--data-dir", path_text(dir));
    for id in 2..=cluster.stores.len() {
        let new = cluster.dir().join(format!("restored-{id}"));
        cluster.stores[id - 1].set_arg("--data-dir", path_text(&new));
    }
    for process in cluster
        .stores
        .iter_mut()
        .chain(&mut cluster.allocs[..allocs])
    {
        process.restart();
    }
    cluster.wait_until_assigned(allocs).await;
    for id in 2..=cluster.stores.len() {
        let store = format!("{id}={}", cluster.store_addresses[id - 1]);
        let servers = cluster.alloc_addresses.join(",");
        assert_success(&run_command(&["member", "add", &store, "--server", &servers]).await);
    }
}
