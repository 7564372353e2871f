//! The dashboard in headless Chromium: its display of a whole cluster, and of one that loses its
//! parts.
//!
//! Fault: SIGKILL of both AllocSvrs and of all stores in turn. Needs Chromium and Node.js.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use seqsvr_test_support::process_cluster::ProcessCluster;
use tokio::task::block_in_place;

use super::{CLUSTER_LOCK, command_succeeds};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/page.cjs");
/// Looks like markup: it must be shown as text.
const MARKUP_KEY: &str = "<b>alice</b>";
/// Sections in use, of 100,000 uids each.
const SECTIONS: u64 = 20;

fn find_chromium() -> Option<String> {
    let named = std::env::var("SEQSVR_CHROMIUM").ok();
    let usual = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let mut all = named.into_iter().chain(usual.map(str::to_owned));
    all.find(|program| command_succeeds(program, &["--version"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dashboard_shows_a_cluster_that_loses_its_parts() {
    let Some(chromium) = find_chromium().filter(|_| command_succeeds("node", &["--version"]))
    else {
        return println!("SKIPPED: no chromium (Debian: chromium; SEQSVR_CHROMIUM), or no node");
    };
    let _alone = CLUSTER_LOCK.lock().await;
    let mut cluster = ProcessCluster::start(3, 2, 3_000).await;
    let client = cluster.new_client();
    client
        .default_namespace()
        .next_n(MARKUP_KEY, 3)
        .await
        .expect("three numbers");
    let load = tokio::spawn(async move {
        for n in 0.. {
            // The load continues while parts of the cluster are down.
            let _ = client
                .default_namespace()
                .next(n % SECTIONS * 100_000)
                .await;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });

    let url = format!("http://127.0.0.1:{}/", cluster.endpoint_ports[0].http);
    let mut command = Command::new("node");
    command.args([SCRIPT, "check", &chromium, &url, MARKUP_KEY, "3"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut browser = command.spawn().expect("it was found before");
    let mut done = browser.stdin.take().expect("piped");
    let mut fault_lines = BufReader::new(browser.stdout.take().expect("piped")).lines();
    let mut faults = 0;
    while let Some(Ok(what)) = block_in_place(|| fault_lines.next()) {
        let processes = match what.as_str() {
            "kill a2" => &mut cluster.allocs[1..],
            "kill a store" => &mut cluster.stores[..1],
            "kill the stores" => &mut cluster.stores[1..],
            "kill a1" => &mut cluster.allocs[..1],
            other => panic!("{other}"),
        };
        for process in processes {
            process.kill();
        }
        faults += 1;
        // The script may have given up.
        let _ = writeln!(done, "done");
    }
    let status = block_in_place(|| browser.wait()).expect("it can be waited for");
    assert!(status.success(), "the page: see above");
    assert_eq!(faults, 4);
    load.abort();
}
