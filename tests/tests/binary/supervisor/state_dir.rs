//! A state directory that cannot be written, as on a full disk.

use std::fs;

use seqsvr_test_support::process::run_command;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn read_readiness(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let request = "GET /readyz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

async fn status_of(server: &str) -> Option<String> {
    let output = run_command(&["status", "--server", server]).await;
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then_some(text)
}

/// The only AllocSvr: no other one takes its slots.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_without_space_for_its_record_shows_why_it_serves_nothing() {
    const MARK: &str = "CANNOT WRITE ITS STATE DIRECTORY";
    let mut cluster = ProcessCluster::start(1, 0, 1_000).await;
    let state = cluster.dir().join("state");
    // In the way of the new file, for root as well.
    let obstacle = state.join("cluster.new");
    fs::create_dir_all(&obstacle).unwrap();
    cluster.add_alloc("a1", &["--state-dir", state.to_str().unwrap()]);
    let (server, http) = (
        cluster.alloc_addresses[0].clone(),
        cluster.endpoint_ports[0].http,
    );
    wait_until("a failed check", TEST_TIMEOUT, async || {
        let answer = read_readiness(http).await?;
        (answer.contains(" 503 ") && answer.contains("does not record cluster")).then_some(())
    })
    .await;
    wait_until("the mark", TEST_TIMEOUT, async || {
        status_of(&server).await?.contains(MARK).then_some(())
    })
    .await;
    // The session was not renewed: it has expired.
    wait_until("no session", TEST_TIMEOUT, async || {
        let status = status_of(&server).await?;
        let line = status.lines().find(|line| line.starts_with("alloc"))?;
        (line.contains("  no session  ") && line.ends_with(MARK)).then_some(())
    })
    .await;
    cluster.assert_none_ended();

    fs::remove_dir(&obstacle).unwrap();
    cluster.wait_until_assigned(1).await;
    let numbers = cluster.new_client().default_namespace();
    numbers.next(1).await.unwrap();
    let status = status_of(&server).await.unwrap();
    assert!(
        !status.contains(MARK) && !status.contains("no session"),
        "{status}"
    );
    // The same process by another name.
    let alias = server.replace("127.0.0.1", "localhost");
    let status = status_of(&alias).await.unwrap();
    let lines = status.lines().filter(|line| line.starts_with("alloc"));
    assert_eq!(lines.count(), 1, "{status}");
    let log = cluster.allocs[0].log();
    assert_eq!(log.matches("cluster not recorded").count(), 1, "{log}");
    assert!(
        log.contains("the state directory records the cluster now"),
        "{log}"
    );
}
