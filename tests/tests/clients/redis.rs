//! Redis clients: each sends every kind of command, and takes numbers while AllocSvrs are killed.
//!
//! To install them: `pip install redis`; `npm install redis ioredis` (and NODE_PATH); Debian's
//! `redis-tools`.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::wait_until;

use crate::{CLUSTER_LOCK, command_succeeds, find_python, node_resolves};

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Numbers taken between two faults.
const NUMBERS_BETWEEN_FAULTS: u64 = 500;

/// A program and its first arguments.
type ClientCommand = (String, Vec<String>);

fn script_path(name: &str) -> String {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients")).join(name);
    path.display().to_string()
}

/// Starts two AllocSvrs and returns the ports of their Redis endpoints.
pub(crate) async fn start_cluster() -> (ProcessCluster, [u16; 2]) {
    let cluster = ProcessCluster::start(3, 2, 3_000).await;
    let ports = [
        cluster.endpoint_ports[0].redis,
        cluster.endpoint_ports[1].redis,
    ];
    (cluster, ports)
}

/// Starts a script. Its arguments are the port, the action, and the library to use.
fn start_script(client: &ClientCommand, port: u16, what: &str, library: &str) -> Child {
    let (program, first) = client;
    let mut command = Command::new(program);
    command.args(first).args([&port.to_string(), what, library]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().expect("it was found before")
}

/// Runs every kind of command. Then takes numbers while the client's AllocSvr is killed and
/// restarted, and while the other one is killed.
async fn check_client(client: ClientCommand, library: &str) {
    let _alone = CLUSTER_LOCK.lock().await;
    let (mut cluster, [port, _]) = start_cluster().await;
    let checked = start_script(&client, port, "conform", library);
    let checked = tokio::task::spawn_blocking(|| checked.wait_with_output());
    let checked = checked.await.expect("not canceled").expect("it ends");
    assert!(checked.status.success(), "{library}: see above");

    let mut running = start_script(&client, port, "run", library);
    let taken = Arc::new(AtomicU64::new(0));
    let wrong = Arc::new(Mutex::new(Vec::new()));
    let lines = BufReader::new(running.stdout.take().expect("piped")).lines();
    let reader = std::thread::spawn({
        let (taken, wrong) = (taken.clone(), wrong.clone());
        move || {
            let mut last = HashMap::<String, u64>::new();
            for line in lines.map_while(Result::ok) {
                let (key, number) = line.split_once(' ').expect("a key and a number");
                let number: u64 = number.parse().expect("a number");
                let seen = last.insert(key.to_owned(), number).unwrap_or(0);
                if number <= seen {
                    wrong
                        .lock()
                        .expect("whole")
                        .push(format!("{line} after {seen}"));
                }
                taken.fetch_add(1, Relaxed);
            }
        }
    });
    let more = async |what: &str| {
        let goal = taken.load(Relaxed) + NUMBERS_BETWEEN_FAULTS;
        wait_until(what, TEST_TIMEOUT, async || {
            (taken.load(Relaxed) >= goal).then_some(())
        })
        .await;
    };
    more("numbers at first").await;
    cluster.kill_alloc(0);
    cluster.allocs[0].restart();
    more("numbers after its AllocSvr came back").await;
    cluster.wait_until_assigned(2).await;
    cluster.kill_alloc(1);
    more("numbers after the other AllocSvr died").await;
    drop(running.stdin.take());
    let status = wait_until("the client to end", TEST_TIMEOUT, async || {
        running.try_wait().expect("it can be waited for")
    });
    assert!(status.await.success(), "{library}: see above");
    reader.join().expect("every line is a number");
    let wrong = wrong.lock().expect("whole");
    assert!(wrong.is_empty(), "{library}: {wrong:?}");
    println!("{library}: {} numbers, two kills", taken.load(Relaxed));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_py_conforms() {
    match find_python(&["redis"]) {
        Some(python) => check_client((python, vec![script_path("redis_py.py")]), "redis-py").await,
        None => println!("SKIPPED: no python3 with redis-py (pip install redis; SEQSVR_PYTHON)"),
    }
}

async fn check_node_client(library: &str) {
    match node_resolves(&[library]) {
        true => {
            check_client(
                ("node".to_owned(), vec![script_path("redis_node.cjs")]),
                library,
            )
            .await
        }
        false => println!("SKIPPED: no node with {library} (npm install {library}; NODE_PATH)"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_redis_conforms() {
    check_node_client("redis").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ioredis_conforms() {
    check_node_client("ioredis").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_cli_conforms() {
    if !command_succeeds("redis-cli", &["--version"]) {
        return println!("SKIPPED: no redis-cli (Debian: redis-tools)");
    }
    let _alone = CLUSTER_LOCK.lock().await;
    let (_cluster, [_, port]) = start_cluster().await;
    let port = port.to_string();
    let ask = |args: &[&str]| {
        let out = Command::new("redis-cli")
            .args(["-p", &port])
            .args(args)
            .output();
        let out = out.expect("it was found before");
        String::from_utf8_lossy(&out.stdout).trim().to_owned()
    };
    for (args, answer) in [
        (&["incr", "cli"][..], "1"),
        (&["incrby", "cli", "5"], "6"),
        (&["get", "cli"], "6"),
        (&["-3", "mget", "cli", "none"], "6"),
        (&["set", "cli", "3"], "ERR the number is 6 already"),
        (
            &["expire", "cli", "3"],
            "ERR expire is not supported: a number never expires",
        ),
        (&["-3", "hello"], "seqsvr"),
    ] {
        let output = ask(args);
        assert!(output.contains(answer), "{args:?}: {output}");
    }
    if command_succeeds("redis-benchmark", &["--version"]) {
        let args = ["-p", &port, "-n", "20000", "-r", "1000", "-P", "16", "-q"];
        let words = ["INCR", "bench:__rand_int__"];
        let ran = Command::new("redis-benchmark")
            .args(args)
            .args(words)
            .output();
        let ran = ran.expect("it was found before");
        let output = String::from_utf8_lossy(&ran.stdout);
        assert!(
            ran.status.success() && output.contains("requests per second"),
            "{output}"
        );
        assert!(!output.contains("rror"), "{output}");
    }
}
