//! Metrics and health over HTTP: the flags that open the endpoints.
//!
//! Starts servers and reads each endpoint.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use seqsvr_test_support::process::ServerProcess;

use crate::dev::{DevServer, free_port};

/// Maximum time until a server has opened its endpoints.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

fn get_once(port: u16, path: &str) -> String {
    get_from_host(port, "localhost", path).unwrap()
}

fn get_from_host(port: u16, host: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Waits until the endpoint of this port is open.
fn wait_until_open(port: u16) {
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(began.elapsed() < OPEN_TIMEOUT, "port {port} is not open");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that metrics and health checks are on the metrics port alone, for listed hosts only.
fn check_separate_metrics(http: u16, metrics: u16, metric: &str) {
    wait_until_open(http);
    for path in ["/metrics", "/healthz", "/readyz"] {
        let answer = get_once(http, path);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
        assert!(answer.contains("--metrics-listen"), "{path}: {answer}");
        for host in ["localhost", "127.0.0.1:1", "seqsvr.internal"] {
            let answer = get_from_host(metrics, host, path).unwrap();
            let is_served = ["HTTP/1.1 200 ", "HTTP/1.1 503 "]
                .iter()
                .any(|status| answer.starts_with(status));
            assert!(is_served, "{host} {path}: {answer}");
        }
        let answer = get_from_host(metrics, "evil.example", path).unwrap();
        assert!(answer.starts_with("HTTP/1.1 421 "), "{path}: {answer}");
    }
    // An AllocSvr opens its endpoints before it has a lease.
    let began = Instant::now();
    loop {
        let answer = get_once(metrics, "/metrics");
        if answer.contains(metric) {
            break;
        }
        assert!(began.elapsed() < OPEN_TIMEOUT, "no {metric} in {answer}");
        std::thread::sleep(Duration::from_millis(20));
    }
    for path in ["/", "/v1/next?uid=1", "/v1/cluster"] {
        let answer = get_once(metrics, path);
        assert!(answer.starts_with("HTTP/1.1 404 "), "{path}: {answer}");
    }
}

#[test]
fn metrics_listen_takes_metrics_off_the_http_endpoint() {
    let dev = DevServer::start_with(&["--redis-port", "0", "--http-port", "0"]);
    let [listen, http, metrics] = [free_port(), free_port(), free_port()];
    let args = |args: &[&str]| {
        let ports = [
            ("--listen", listen),
            ("--http-listen", http),
            ("--metrics-listen", metrics),
        ];
        let ports = ports.map(|(flag, port)| format!("{flag}=127.0.0.1:{port}"));
        let args = args.iter().map(|arg| (*arg).to_owned());
        args.chain(ports).collect::<Vec<_>>()
    };
    let stores = format!("--stores=127.0.0.1:{}", dev.store_port);
    let host = "--http-host=Seqsvr.Internal,a1";
    let alloc = args(&["alloc", "--name=a9", host, &stores]);
    let alloc = ServerProcess::start(dev.dir.path(), "a9", alloc);
    check_separate_metrics(http, metrics, "seqsvr_alloc_lease_valid 1\n");
    let answer = get_once(http, "/v1/next?uid=1");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    drop(alloc);

    let data_dir = format!("--data-dir={}", dev.dir.path().join("other").display());
    let store = args(&["store", "--id=9", host, &data_dir]);
    let _store = ServerProcess::start(dev.dir.path(), "store-9", store);
    check_separate_metrics(http, metrics, "seqsvr_raft_is_leader 0\n");
}

#[test]
fn dev_serves_metrics_and_readiness_of_allocs_and_stores() {
    let (http, store_http) = (free_port(), free_port());
    let (http_flag, store_flag) = (http.to_string(), store_http.to_string());
    let _dev =
        DevServer::start_with(&["--http-port", &http_flag, "--store-http-port", &store_flag]);
    for (port, name) in [
        (http, "seqsvr_alloc_lease_valid 1\n"),
        (store_http, "seqsvr_raft_is_leader 1\n"),
    ] {
        let metrics = get_once(port, "/metrics");
        assert!(metrics.contains(name), "{metrics}");
        let ready = get_once(port, "/readyz");
        assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");
    }
    // A store issues no numbers.
    let answer = get_once(store_http, "/v1/next?key=alice");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}
