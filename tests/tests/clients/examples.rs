//! The examples of `docs/examples` and of the SDK, each run over gRPC as a new user runs it.
//!
//! Needs the tools of each language; an example without them is skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use seqsvr_test_support::process::build_executable;
use seqsvr_test_support::process_cluster::ProcessCluster;

use crate::{CLUSTER_LOCK, command_succeeds, find_python, node_resolves};

fn example_path(path: &str) -> PathBuf {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples"));
    examples.join(path)
}

/// Runs an example against an AllocSvr under a name of its own. Its output is the same in every
/// language.
async fn run_example(command: Command, name: &str) {
    let _alone = CLUSTER_LOCK.lock().await;
    let cluster = ProcessCluster::start(1, 1, 3_000).await;
    play_example(command, name, cluster, None).await;
}

/// Runs an example against an AllocSvr under TLS, with the certificate of a caller.
async fn run_example_under_tls(command: Command, name: &str) {
    let _alone = CLUSTER_LOCK.lock().await;
    let cluster = ProcessCluster::start_secured(1, 1, 3_000).await;
    let dir = cluster.pki().issue("client", "billing").await;
    play_example(command, name, cluster, Some(dir)).await;
}

async fn play_example(
    mut command: Command,
    name: &str,
    mut cluster: ProcessCluster,
    tls_dir: Option<PathBuf>,
) {
    cluster.wait_until_assigned(1).await;
    command.args([&cluster.alloc_addresses[0], name]);
    command.args(tls_dir);
    let ran = tokio::task::spawn_blocking(move || command.output());
    let ran = ran.await.expect("not canceled").expect("it starts");
    let output = String::from_utf8_lossy(&ran.stdout);
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{name}: {output}{errors}");
    let mut lines = output.lines();
    for line in [
        "next 1",
        &format!("many {name}/a 1 to 1"),
        &format!("many {name}/b 1 to 5"),
        &format!("many {name}/c 1 to 1"),
        "current 1",
        "raised to 1000 next 1001",
    ] {
        assert_eq!(lines.next(), Some(line), "{name}: {output}");
    }
    let rejection = lines.next().unwrap_or_default();
    assert!(
        rejection.starts_with("rejected NAMESPACE_NOT_FOUND ") && rejection.contains("\"nowhere\""),
        "{name}: {output}"
    );
    println!("{name}: as it should be");
}

/// Builds an example of the SDK with the features of the whole workspace, with which the tests are
/// built: no new build.
async fn build_sdk_example(name: &'static str) -> PathBuf {
    let build = move || build_executable(name, &["--workspace", "--example", name]);
    let built = tokio::task::spawn_blocking(build).await;
    built.expect("not canceled")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sdk_examples_run_one_after_the_other() {
    let _alone = CLUSTER_LOCK.lock().await;
    let mut cluster = ProcessCluster::start(1, 1, 3_000).await;
    cluster.wait_until_assigned(1).await;
    for (name, expected) in [
        ("next", vec!["next 1", "next 2 to 6"]),
        ("current", vec!["the last number is 6"]),
        (
            "batch",
            vec!["alice/a: 1 to 1", "alice/b: 1 to 5", "alice/c: 1 to 1"],
        ),
        (
            "raise_to",
            vec![
                "raised to 1000, next 1001",
                "rejected: ",
                "raised to 2000001001",
            ],
        ),
        (
            "errors",
            vec![
                "default: 1",
                "nowhere: not found: ",
                "no spaces: InvalidInput: ",
            ],
        ),
    ] {
        let mut command = Command::new(build_sdk_example(name).await);
        command.arg(&cluster.alloc_addresses[0]);
        let ran = tokio::task::spawn_blocking(move || command.output());
        let ran = ran.await.expect("not canceled").expect("it starts");
        let output = String::from_utf8_lossy(&ran.stdout);
        let errors = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{name}: {output}{errors}");
        assert_eq!(output.lines().count(), expected.len(), "{name}: {output}");
        for (line, start) in output.lines().zip(expected) {
            assert!(line.starts_with(start), "{name}: {line:?}, not {start:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python_example_runs_without_generated_code() {
    let Some(python) = find_python(&["grpc", "grpc_reflection", "grpc_status"]) else {
        return println!(
            "SKIPPED: no python3 with gRPC (pip install grpcio grpcio-reflection grpcio-status; SEQSVR_PYTHON)"
        );
    };
    let command = || {
        let mut command = Command::new(&python);
        command.arg(example_path("python/sequence.py"));
        command
    };
    run_example(command(), "python").await;
    run_example_under_tls(command(), "python").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_example_runs() {
    if !node_resolves(&["@grpc/grpc-js", "@grpc/proto-loader", "protobufjs"]) {
        return println!(
            "SKIPPED: no node with gRPC (npm install @grpc/grpc-js @grpc/proto-loader protobufjs; NODE_PATH)"
        );
    }
    let command = || {
        let mut command = Command::new("node");
        command.arg(example_path("node/sequence.js"));
        command
    };
    run_example(command(), "node").await;
    run_example_under_tls(command(), "node").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn go_example_runs() {
    let dir = example_path("go").display().to_string();
    if !dir_is_ready(&dir) {
        return println!("SKIPPED: no go, or {dir}/README.md was not followed");
    }
    let mut command = Command::new("go");
    command.current_dir(&dir).args(["run", "."]);
    run_example(command, "go").await;
}

/// Returns whether the code was generated and all dependencies were fetched.
fn dir_is_ready(dir: &str) -> bool {
    Path::new(dir).join("sequence").is_dir() && command_succeeds("go", &["-C", dir, "vet", "."])
}
