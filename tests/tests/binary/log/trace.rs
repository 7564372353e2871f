//! A caller's trace travels with its call: to the owner to which the call is forwarded, and into
//! the logs of both.
//!
//! Starts a cluster with debug logs and reads them.

use std::time::Duration;

use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::wait_until;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Returns the messages that a process logged for the trace.
fn traced_messages(log: &str) -> Vec<String> {
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = lines.filter(|line| line["span"]["trace"] == TRACE_ID);
    ours.map(|line| format!("{} {}", line["fields"]["message"], line["span"]["method"]))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trace_of_a_call_is_logged_by_all_its_servers() {
    let flags = ["--log", "seqsvr_alloc=debug", "--log-format", "json"];
    let cluster = ProcessCluster::start_with(1, 2, 3_000, &[], &flags).await;
    let endpoint = ("127.0.0.1", cluster.endpoint_ports[0].http);
    // Uids in many sections, some of which belong to the other AllocSvr.
    for n in 0..20 {
        let uid = n * 100_000;
        let mut stream = TcpStream::connect(endpoint).await.unwrap();
        let request = format!(
            "GET /v1/next?uid={uid} HTTP/1.1\r\nhost: localhost\r\ntraceparent: 00-{TRACE_ID}-00f067aa0ba902b7-01\r\nconnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    wait_until(
        "the trace in both logs",
        Duration::from_secs(10),
        async || {
            let [receiver, owner] =
                [&cluster.allocs[0], &cluster.allocs[1]].map(|a| traced_messages(&a.log()));
            let answered = receiver
                .iter()
                .filter(|line| *line == "\"answered\" \"Next\"")
                .count();
            let is_answered_by_owner = owner.iter().any(|line| line == "\"answered\" \"NextMany\"");
            (answered == 20 && is_answered_by_owner).then_some(())
        },
    )
    .await;
    // A call without a trace has no trace field in the log.
    assert!(!cluster.allocs[1].log().contains("\"trace\":\"\""));
}
