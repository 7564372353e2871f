//! The examples of `docs/examples`, each run over gRPC as a new user runs it.
//!
//! Needs the tools of each language; an example without them is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use seqsvr_tests::cluster::Cluster;
use seqsvr_tests::process::build_of;

use crate::{ALONE, python, resolves, works};

fn example(path: &str) -> PathBuf {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples"));
    examples.join(path)
}

/// Runs an example against an AllocSvr under a name of its own. Its output is the same in every
/// language.
async fn runs(mut command: Command, name: &str) {
    let _alone = ALONE.lock().await;
    let mut cluster = Cluster::start(1, 1, 3_000).await;
    cluster.whole(1).await;
    command.args([&cluster.alloc_addresses[0], name]);
    let ran = tokio::task::spawn_blocking(move || command.output());
    let ran = ran.await.expect("not cancelled").expect("it starts");
    let told = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{name}: {told}{errors}");
    let mut lines = told.lines();
    for line in [
        "next 1",
        &format!("many {name}/a 1 to 1"),
        &format!("many {name}/b 1 to 5"),
        &format!("many {name}/c 1 to 1"),
        "current 1",
        "raised to 1000 next 1001",
    ] {
        assert_eq!(lines.next(), Some(line), "{name}: {told}");
    }
    let refused = lines.next().unwrap_or_default();
    assert!(
        refused.starts_with("refused NO_SUCH_NAMESPACE ") && refused.contains("\"nowhere\""),
        "{name}: {told}"
    );
    println!("{name}: as it should be");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust() {
    // With the features of the whole workspace, with which the tests are built: no new build.
    let args = ["--workspace", "--example", "sequence"];
    let built = tokio::task::spawn_blocking(move || build_of("sequence", &args));
    runs(Command::new(built.await.expect("not cancelled")), "rust").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_without_generated_code() {
    let Some(python) = python(&["grpc", "grpc_reflection", "grpc_status"]) else {
        return println!(
            "SKIPPED: no python3 with gRPC (pip install grpcio grpcio-reflection grpcio-status; SEQSVR_PYTHON)"
        );
    };
    let mut command = Command::new(python);
    command.arg(example("python/sequence.py"));
    runs(command, "python").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    if !resolves(&["@grpc/grpc-js", "@grpc/proto-loader", "protobufjs"]) {
        return println!(
            "SKIPPED: no node with gRPC (npm install @grpc/grpc-js @grpc/proto-loader protobufjs; NODE_PATH)"
        );
    }
    let mut command = Command::new("node");
    command.arg(example("node/sequence.js"));
    runs(command, "node").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go() {
    let dir = example("go").display().to_string();
    if !dir_is_ready(&dir) {
        return println!("SKIPPED: no go, or {dir}/README.md was not followed");
    }
    let mut command = Command::new("go");
    command.current_dir(&dir).args(["run", "."]);
    runs(command, "go").await;
}

/// Returns whether the code was generated and all dependencies were fetched.
fn dir_is_ready(dir: &str) -> bool {
    Path::new(dir).join("sequence").is_dir() && works("go", &["-C", dir, "vet", "."])
}
