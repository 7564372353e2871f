//! `seqsvr backup` and `seqsvr restore` as an operator runs them, and their output.

use std::path::Path;
use std::process::Output;

use crate::cluster::Cluster;
use crate::process::run;

pub(super) async fn backup(cluster: &Cluster, file: &Path) -> Output {
    let servers = cluster.alloc_addresses.join(",");
    run(&["backup", path(file), "--server", &servers]).await
}

/// Runs `seqsvr restore` of the first store with these margins.
pub(super) async fn restore(
    cluster: &Cluster,
    file: &Path,
    dir: &Path,
    margins: &[(&str, &str)],
) -> Output {
    let mut args = vec!["restore", path(file), "--id", "1"];
    args.extend(["--listen", &cluster.store_addresses[0], "--data-dir"]);
    args.push(path(dir));
    for (flag, value) in margins {
        args.extend([*flag, *value]);
    }
    run(&args).await
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Asserts that a restore was rejected with these words and created nothing. Returns its errors.
pub(super) fn refused(output: &Output, dir: &Path, words: &[&str]) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{output:?}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
    assert!(!dir.exists(), "{} was made", dir.display());
    said
}

pub(super) fn done(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the minimum of a margin, as the rejection states it.
pub(super) fn least(said: &str, flag: &str) -> String {
    let line = said.lines().find(|l| l.trim_start().starts_with(flag));
    let (_, least) = line.and_then(|l| l.rsplit_once("at least ")).expect(flag);
    least.trim().to_owned()
}

/// Starts the restored store, joins the others on new directories, and starts `allocs` AllocSvrs.
pub(super) async fn start_restored(cluster: &mut Cluster, dir: &Path, allocs: usize) {
    cluster.stores[0].set_arg("--data-dir", path(dir));
    for id in 2..=cluster.stores.len() {
        let new = cluster.dir().join(format!("restored-{id}"));
        cluster.stores[id - 1].set_arg("--data-dir", path(&new));
    }
    for process in cluster
        .stores
        .iter_mut()
        .chain(&mut cluster.allocs[..allocs])
    {
        process.restart();
    }
    cluster.whole(allocs).await;
    for id in 2..=cluster.stores.len() {
        let store = format!("{id}={}", cluster.store_addresses[id - 1]);
        let servers = cluster.alloc_addresses.join(",");
        done(&run(&["member", "add", &store, "--server", &servers]).await);
    }
}
