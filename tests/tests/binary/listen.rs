//! Addresses on which a server listens: routable ones are rejected before anything exists, and
//! `--insecure` allows them loudly.
//!
//! Runs the binary with addresses of all kinds; only the last test starts servers that serve.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seqsvr_test_support::process::{ServerProcess, run_command};
use seqsvr_test_support::process_cluster::{ProcessCluster, store_args};
use seqsvr_test_support::wait::wait_until;

use crate::dev::{clean_command, expect_failure, free_port};

const TEST_TIMEOUT: Duration = Duration::from_secs(60);

fn alloc_command(dir: &Path, listen: &str) -> Command {
    let mut command = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
    command.args(["--listen", listen, "--state-dir"]);
    command.arg(dir.join("new/state"));
    command
}

fn store_command(dir: &Path, listen: &str) -> Command {
    let mut command = clean_command(&["store", "--id", "1", "--listen", listen, "--data-dir"]);
    command.arg(dir.join("new/data"));
    command
}

/// Asserts that a server exits with code 2, names the flag and the ways out, and makes nothing.
fn assert_rejected(command: Command, dir: &Path, flag: &str, address: &str) {
    let errors = expect_failure(command, 2);
    let begin = format!("error: {flag} {address}: other machines can reach this address");
    assert!(errors.starts_with(&begin), "{errors}");
    let (_, port) = address.rsplit_once(':').unwrap();
    for way in [format!("{flag} 127.0.0.1:{port} "), "--insecure ".into()] {
        assert!(errors.contains(&way), "{errors}");
    }
    assert!(!dir.join("new").exists(), "a directory was made");
}

/// Returns an address of this machine that is not loopback, if there is one.
fn own_address() -> Option<String> {
    // It sends nothing: the system only selects a route.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then(|| address.to_string())
}

#[test]
fn routable_listen_address_is_rejected_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    // A server that opened its port first would report that the address is in use, with code 1.
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let mut hosts = vec![
        "0.0.0.0".to_owned(),
        "[::]".into(),
        "[::ffff:0.0.0.0]".into(),
    ];
    match own_address() {
        Some(address) => hosts.push(address),
        None => println!("SKIPPED: this machine has no address but loopback"),
    }
    for host in hosts {
        let address = format!("{host}:{port}");
        assert_rejected(
            alloc_command(dir.path(), &address),
            dir.path(),
            "--listen",
            &address,
        );
        assert_rejected(
            store_command(dir.path(), &address),
            dir.path(),
            "--listen",
            &address,
        );
    }
}

#[test]
fn each_routable_endpoint_is_rejected_by_its_flag() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let loopback = taken.local_addr().unwrap().to_string();
    let routable = format!("0.0.0.0:{}", free_port());
    for flag in ["--redis-listen", "--http-listen"] {
        let mut alloc = alloc_command(dir.path(), &loopback);
        alloc.args([flag, &routable]);
        assert_rejected(alloc, dir.path(), flag, &routable);
    }
    let mut store = store_command(dir.path(), &loopback);
    store.args(["--http-listen", &routable]);
    assert_rejected(store, dir.path(), "--http-listen", &routable);
    // From the environment as well.
    let mut store = store_command(dir.path(), &loopback);
    store.env("SEQSVR_HTTP_LISTEN", &routable);
    assert_rejected(store, dir.path(), "--http-listen", &routable);
}

/// With `insecure` the next mistake is reported: the address is in use.
#[test]
fn insecure_is_a_flag_a_variable_and_a_key() {
    let dir = tempfile::tempdir().unwrap();
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let file = dir.path().join("seqsvr.toml");
    let set_file = |insecure: &str| {
        let text = format!("[alloc]\nlisten = \"{address}\"\ninsecure = {insecure}\n");
        std::fs::write(&file, text).unwrap();
    };
    let alloc = || {
        let mut command = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
        command.args(["--advertise", "127.0.0.1:1"]);
        command
    };
    let with_file = || {
        let mut command = alloc();
        command.env("SEQSVR_CONFIG", &file);
        command
    };

    let mut by_flag = alloc();
    by_flag.args(["--insecure", "--listen", &address]);
    let mut by_variable = alloc();
    by_variable.args(["--listen", &address]);
    by_variable.env("SEQSVR_INSECURE", "1");
    set_file("true");
    for command in [by_flag, by_variable, with_file()] {
        let errors = expect_failure(command, 1);
        assert!(
            errors.contains("--listen") && errors.contains(&address),
            "{errors}"
        );
    }

    // The environment overrides the file.
    let mut command = with_file();
    command.env("SEQSVR_INSECURE", "false");
    let errors = expect_failure(command, 2);
    assert!(errors.contains("other machines can reach"), "{errors}");
    set_file("false");
    let errors = expect_failure(with_file(), 2);
    assert!(errors.contains("other machines can reach"), "{errors}");
    set_file("\"yes\"");
    let errors = expect_failure(with_file(), 2);
    assert!(
        errors.contains("[alloc] insecure: use true or false"),
        "{errors}"
    );
}

fn read_metrics(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = "GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

async fn wait_for_metric(port: u16, line: &str) {
    wait_until(line, TEST_TIMEOUT, async || {
        read_metrics(port)?.contains(line).then_some(())
    })
    .await;
}

async fn status_of(server: &str) -> String {
    let output = run_command(&["status", "--server", server]).await;
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Starts the process again on all addresses of this machine.
async fn open_to_all(process: &mut ServerProcess, http: u16) {
    let loopback = process.arg("--listen").to_owned();
    let (_, port) = loopback.rsplit_once(':').unwrap();
    process.stop(TEST_TIMEOUT).await;
    process.set_flag("--insecure");
    process.set_arg("--listen", &format!("0.0.0.0:{port}"));
    process.set_arg("--advertise", &loopback);
    process.set_arg("--http-listen", &format!("0.0.0.0:{http}"));
    process.restart();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn insecure_servers_serve_on_all_addresses_and_show_it() {
    const BANNER: &str = "INSECURE: ANY PROGRAM THAT REACHES THIS SERVER MAY DO EVERYTHING";
    let mut cluster = ProcessCluster::start(1, 1, 1_000).await;
    let server = cluster.alloc_addresses[0].clone();
    let alloc_http = cluster.endpoint_ports[0].http;
    let status = status_of(&server).await;
    assert!(!status.contains("INSECURE"), "{status}");
    wait_for_metric(alloc_http, "\nseqsvr_insecure 0\n").await;

    let store_http = free_port();
    open_to_all(&mut cluster.stores[0], store_http).await;
    open_to_all(&mut cluster.allocs[0], alloc_http).await;
    for (process, http) in [
        (&cluster.stores[0], store_http),
        (&cluster.allocs[0], alloc_http),
    ] {
        wait_for_metric(http, "\nseqsvr_insecure 1\n").await;
        wait_until("the banner and the warning", TEST_TIMEOUT, async || {
            let log = process.log();
            let warns = log.contains("WARN") && log.contains("with --insecure");
            (warns && log.contains(BANNER)).then_some(())
        })
        .await;
    }
    cluster.wait_until_assigned(1).await;
    let numbers = cluster.new_client().default_namespace().next(42).await;
    numbers.unwrap();
    let status = status_of(&server).await;
    let marked = status.lines().filter(|line| line.ends_with("  INSECURE"));
    assert_eq!(marked.count(), 2, "{status}");
}

/// The address leads nowhere at first. The store runs in that time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_whose_address_leads_elsewhere_warns_once_and_serves() {
    const WARNING: &str = "the advertised address does not lead to this store";
    let dir = tempfile::tempdir().unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let advertise = listener.local_addr().unwrap().to_string();
    let (attempts, is_open) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let forwarder = {
        let (attempts, is_open, to) = (attempts.clone(), is_open.clone(), listen.clone());
        tokio::spawn(async move {
            while let Ok((mut from, _)) = listener.accept().await {
                attempts.fetch_add(1, Ordering::Relaxed);
                if is_open.load(Ordering::Relaxed) {
                    let mut to = tokio::net::TcpStream::connect(&to).await.unwrap();
                    tokio::spawn(async move {
                        let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                    });
                }
            }
        })
    };
    let mut args = store_args(1, &listen, dir.path().join("data").to_str().unwrap());
    args.extend(["--advertise".to_owned(), advertise.clone()]);
    let store = ServerProcess::start(dir.path(), "store", args);
    let logged = async |text: &str| {
        wait_until(text, TEST_TIMEOUT, async || {
            store.log().contains(text).then_some(())
        })
        .await;
    };
    logged(WARNING).await;
    TcpStream::connect(&listen).unwrap();
    let before = attempts.load(Ordering::Relaxed);
    wait_until("a second attempt", TEST_TIMEOUT, async || {
        (attempts.load(Ordering::Relaxed) > before).then_some(())
    })
    .await;
    is_open.store(true, Ordering::Relaxed);
    logged("the advertised address leads to this store now").await;
    let log = store.log();
    let warnings: Vec<&str> = log.lines().filter(|l| l.contains(WARNING)).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    for words in [
        &format!("no store answers at {advertise}"),
        "correct --advertise",
    ] {
        assert!(warnings[0].contains(words), "{words}: {log}");
    }
    forwarder.abort();
}

/// Schedule: a store is started on another port. It calls the others and they never call it, so it
/// has no part in the group although it runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_on_another_port_is_named_by_itself_and_by_the_leader() {
    let mut cluster = ProcessCluster::start(3, 1, 3_000).await;
    let leader = cluster.leader().await;
    let moved = (leader + 1) % 3;
    let joined_at = cluster.store_addresses[moved].clone();
    cluster.stop_store(moved).await;
    let other = format!("127.0.0.1:{}", free_port());
    cluster.stores[moved].set_arg("--listen", &other);
    cluster.stores[moved].restart();
    let own = format!("address={other} called_at={joined_at}");
    let seen = format!("or replace it node={} address=\"{joined_at}\"", moved + 1);
    for (at, text) in [(moved, own), (leader, seen)] {
        wait_until(&text, TEST_TIMEOUT, async || {
            cluster.stores[at].log().contains(&text).then_some(())
        })
        .await;
    }
    cluster.stop_store(moved).await;
    cluster.stores[moved].set_arg("--listen", &joined_at);
    cluster.restart_store(moved).await;
    let again = format!(
        "store answers again node={} address=\"{joined_at}\"",
        moved + 1
    );
    wait_until(&again, TEST_TIMEOUT, async || {
        cluster.stores[leader].log().contains(&again).then_some(())
    })
    .await;
}

#[test]
fn dev_with_one_port_for_two_flags_names_both() {
    let (port, dir) = (free_port().to_string(), tempfile::tempdir().unwrap());
    for other in ["--store-port", "--redis-port", "--http-port"] {
        let mut dev = clean_command(&["dev", "--port", &port, other, &port, "--data-dir"]);
        dev.arg(dir.path().join("data"));
        let text = expect_failure(dev, 2);
        let words = [other, "--port", "both need port", &port];
        assert!(words.iter().all(|part| text.contains(part)), "{text}");
        assert!(!text.contains("stop the process"), "{text}");
    }
    assert!(!dir.path().join("data").exists(), "a server was started");
}
