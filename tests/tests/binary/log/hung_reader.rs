//! Servers whose log reader hangs or is gone: they elect, serve, move slots and stop as before.
//!
//! Stdout and stderr are one pipe. To make its reader hang, the test fills the pipe and reads
//! nothing.

use std::io::{BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Write, pipe};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use futures::future::join_all;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use seqsvr_test_support::process::run_command;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::dev::{clean_command, free_port};

/// Maximum time of one HTTP request; the test repeats it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
const DROPPED: &str = "seqsvr_log_lines_dropped_total ";

/// Returns a pipe that takes no byte more.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    for piece in [&[b'.'; 4_096][..], b"."] {
        let full = loop {
            if let Err(error) = writer.write(piece) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::WouldBlock);
    }
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// Returns the answer to a request, or None if there is none in time.
async fn try_get(port: u16, path: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let exchange = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        std::io::Result::Ok(answer)
    };
    timeout(REQUEST_TIMEOUT, exchange).await.ok()?.ok()
}

/// Returns the number of dropped lines that a server reports, once it is ready and it has some.
async fn wait_for_drops(http: u16) -> u64 {
    wait_until("dropped lines", TEST_TIMEOUT, async || {
        let text = try_get(http, "/metrics").await?;
        let line = text.lines().find_map(|line| line.strip_prefix(DROPPED));
        line?.parse().ok().filter(|dropped| *dropped > 0)
    })
    .await
}

/// Takes a number of each of many keys over HTTP, on several connections at once.
async fn call_http(port: u16) {
    let calls = (0..8).map(|caller| async move {
        for n in 0..25 {
            let path = format!("/v1/next?key=caller{caller}-{n}");
            wait_until("an answer", TEST_TIMEOUT, async || {
                let answer = try_get(port, &path).await?;
                answer.starts_with("HTTP/1.1 200 ").then_some(())
            })
            .await;
        }
    });
    join_all(calls).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_whose_log_reader_hangs_elect_serve_and_stop() {
    let mut cluster = ProcessCluster::start(3, 2, 3_000).await;
    let store_http: Vec<u16> = (0..3).map(|_| free_port()).collect();
    for (store, http) in cluster.stores.iter_mut().zip(&store_http) {
        store.set_arg("--http-listen", &format!("127.0.0.1:{http}"));
    }
    let mut readers = Vec::new();
    for process in cluster.all_processes() {
        process.kill();
        let (reader, writer) = full_pipe();
        readers.push(reader);
        process.set_output(OwnedFd::from(writer));
        process.set_arg("--log", "trace");
        process.restart();
    }

    // An election, registrations, and calls.
    cluster.wait_until_assigned(2).await;
    let ports: Vec<u16> = cluster.endpoint_ports.iter().map(|p| p.http).collect();
    for port in &ports {
        call_http(*port).await;
    }
    let client = cluster.new_client();
    for uid in 0..100 {
        client.default_namespace().next(uid).await.unwrap();
    }

    // A planned transfer, an unplanned one, and a takeover.
    let leader = cluster.leader().await;
    let next = ((leader + 1) % 3 + 1).to_string();
    let server = cluster.alloc_addresses[0].clone();
    let moved = run_command(&["member", "transfer", &next, "--server", &server]).await;
    assert!(moved.status.success(), "{moved:?}");
    wait_until("another leader", TEST_TIMEOUT, async || {
        (cluster.leader().await != leader).then_some(())
    })
    .await;
    let killed = cluster.leader().await;
    cluster.kill_store(killed);
    cluster.kill_alloc(0);
    cluster.wait_until_assigned(1).await;
    call_http(ports[1]).await;

    // They did so with full queues.
    wait_for_drops(ports[1]).await;
    wait_for_drops(store_http[(killed + 1) % 3]).await;
    cluster.stores.remove(killed);
    for process in cluster.allocs[1..].iter_mut().chain(&mut cluster.stores) {
        let status = process.stop(TEST_TIMEOUT).await;
        assert!(status.success(), "{status}");
    }
    drop(readers);
}

/// Each line is whole, and the lines that report drops have the number of the metric.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_continues_with_the_number_of_dropped_lines() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = full_pipe();
    let http = free_port();
    let mut dev = start_dev(dir.path(), http, writer.into());
    call_http(http).await;
    wait_for_drops(http).await;

    // The reader lives again.
    let (notices, noticed) = channel();
    let reader = thread::spawn(move || {
        let mut lines = BufReader::new(reader).lines();
        let first = lines.next().unwrap().unwrap();
        let first = first.trim_start_matches('.');
        let mut reported = 0;
        for line in std::iter::once(first.to_owned()).chain(lines.map(Result::unwrap)) {
            let line: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line}: {e}"));
            let message = line["fields"]["message"].as_str().unwrap_or_default();
            if message.starts_with("log lines dropped") {
                reported += line["fields"]["lines"].as_u64().unwrap();
                let _ = notices.send(());
            }
        }
        reported
    });
    noticed.recv_timeout(TEST_TIMEOUT).unwrap();
    call_http(http).await;
    let dropped = wait_for_drops(http).await;
    kill_process(Pid::from_child(&dev), Signal::TERM).unwrap();
    assert!(dev.wait().unwrap().success());
    let reported = reader.join().unwrap();
    assert!(reported >= dropped, "{reported} of {dropped}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_whose_log_reader_is_gone_serves_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let http = free_port();
    let mut dev = start_dev(dir.path(), http, writer.into());
    call_http(http).await;
    wait_for_drops(http).await;
    kill_process(Pid::from_child(&dev), Signal::TERM).unwrap();
    assert!(dev.wait().unwrap().success());
}

/// Starts `seqsvr dev` with a log of every detail, in JSON.
fn start_dev(dir: &std::path::Path, http: u16, output: OwnedFd) -> std::process::Child {
    let ports = [
        ("--port", free_port()),
        ("--store-port", free_port()),
        ("--http-port", http),
        ("--redis-port", 0),
        ("--store-http-port", 0),
    ];
    let mut dev = clean_command(&["dev", "--log", "trace", "--log-format", "json"]);
    dev.args(ports.map(|(flag, port)| format!("{flag}={port}")));
    dev.arg("--data-dir").arg(dir.join("data"));
    spawn_with_output(&mut dev, output)
}

/// Starts a process whose stdout and stderr are `output`. No handle of it stays in this process.
fn spawn_with_output(command: &mut Command, output: OwnedFd) -> std::process::Child {
    command.stdout(output.try_clone().unwrap()).stderr(output);
    let child = command.spawn().unwrap();
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    child
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_that_fails_while_its_log_reader_hangs_ends_with_its_code() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let (_reader, writer) = full_pipe();
    let mut store = clean_command(&["store", "--id", "1", "--listen", &listen]);
    store.arg("--data-dir").arg(dir.path().join("data"));
    let mut store = spawn_with_output(&mut store, writer.into());
    let status = wait_until("the end of the store", TEST_TIMEOUT, async || {
        store.try_wait().unwrap()
    })
    .await;
    assert_eq!(status.code(), Some(1));
}
