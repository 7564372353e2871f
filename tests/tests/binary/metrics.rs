//! Metrics and health over HTTP: the flags that open the endpoints.
//!
//! Starts `seqsvr dev` and reads each endpoint once.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::dev::{DevServer, free_port};

fn get_once(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
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
