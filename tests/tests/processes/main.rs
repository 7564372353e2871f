//! What must hold of the release binary run as real processes: it is started, loaded, killed with
//! SIGKILL and started again, and the exact check of every call made must pass.
//!
//! The scenarios run one after the other, whatever the number of test threads: each is the load of
//! the machine.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests: clippy allows it only inside test functions"
)]

mod all_killed;
mod dev;
mod five_processes;
mod mistaken;
mod owner_killed;
mod store_killed;

use seqsvr_client::Client;
use seqsvr_tests::caller::Caller;
use seqsvr_tests::cluster::Cluster;
use seqsvr_tests::load::Summary;
use seqsvr_tests::plain::Plain;

/// Held by the scenario that runs.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Two clients, and a plain caller each that asks these nodes.
fn callers(cluster: &Cluster, asked_plainly: &[String]) -> (Vec<Caller>, Client) {
    let clients = [cluster.client(), cluster.client()];
    let plain = clients
        .clone()
        .map(|c| Caller::Plain(Plain::new(asked_plainly, c)));
    let one = clients[0].clone();
    (
        clients
            .map(Caller::Client)
            .into_iter()
            .chain(plain)
            .collect(),
        one,
    )
}

/// Says what a load did.
fn tell(what: &str, summary: &Summary) {
    println!(
        "{what}: {} calls answered, {} failed; longest {:.0?}: {}",
        summary.answered, summary.failed, summary.longest.0, summary.longest.1
    );
    for failure in summary.failures.iter().take(5) {
        println!("  failed: {failure}");
    }
}
