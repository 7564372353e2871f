//! Signals that stop a server: SIGHUP works as SIGTERM, unless it is ignored.

use std::fs::File;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use seqsvr_test_support::process::release_binary;
use seqsvr_test_support::process_cluster::ProcessCluster;
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

use crate::dev::free_port;

/// Bit of SIGHUP in a mask of signals.
const HANGUP: u64 = 1 << 0;

/// An AllocSvr that was killed would leave its slots without an owner for longer than a lease, and
/// their sequences would jump.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn alloc_hands_over_its_slots_on_hangup() {
    if signal_mask(std::process::id(), "SigIgn:") & HANGUP != 0 {
        println!("SKIPPED: this test was started with SIGHUP ignored, as by nohup; so are servers");
        return;
    }
    let mut cluster = ProcessCluster::start(1, 2, 30_000).await;
    let numbers = cluster.new_client().default_namespace();
    // Each in a section of its own.
    let uids: Vec<u64> = (0..20).map(|n| n * 100_000).collect();
    for uid in &uids {
        assert_eq!(numbers.next(*uid).await.unwrap().first, 1);
    }
    cluster.allocs[0].signal(Signal::HUP);
    // Another one does not end the handover.
    cluster.allocs[0].signal(Signal::HUP);
    let status = cluster.allocs[0].wait_for_exit(TEST_TIMEOUT).await;
    assert!(status.success(), "{status}");
    let log = cluster.allocs[0].log();
    for words in ["stopping: calls in progress end first", "stopped"] {
        assert!(log.contains(words), "{log}");
    }
    let admin = cluster.new_client().admin();
    let left = admin.cluster_status().await.unwrap();
    assert_eq!((left.free_slots, left.sessions.len()), (0, 1));
    for uid in &uids {
        assert_eq!(numbers.next(*uid).await.unwrap().first, 2, "{uid}");
    }
    for process in cluster.stores.iter_mut().chain(&mut cluster.allocs[1..]) {
        process.signal(Signal::HUP);
        let status = process.wait_for_exit(TEST_TIMEOUT).await;
        assert!(status.success(), "{status}");
    }
}

/// Returns a mask of signals of a process, as in proc(5).
fn signal_mask(process: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix(name));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
}

/// The shell ignores SIGHUP, as `nohup` does, and becomes the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_started_with_ignored_hangup_keeps_running() {
    const TERMINATE: u64 = 1 << 14;
    let dir = tempfile::tempdir().unwrap();
    let listen = format!("--listen=127.0.0.1:{}", free_port());
    let mut store = Command::new("sh");
    store.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    store.arg(release_binary()).args(["store", "--id=1"]);
    store.arg(listen).arg("--data-dir");
    store.arg(dir.path().join("data"));
    let out = File::create(dir.path().join("out")).unwrap();
    let store = store.stdout(out.try_clone().unwrap()).stderr(out);
    let mut store = store.spawn().unwrap();
    wait_until("signal handlers", TEST_TIMEOUT, async || {
        (signal_mask(store.id(), "SigCgt:") & TERMINATE != 0).then_some(())
    })
    .await;
    assert_eq!(signal_mask(store.id(), "SigIgn:") & HANGUP, HANGUP);
    let pid = Pid::from_child(&store);
    kill_process(pid, Signal::HUP).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let status = store.wait().unwrap();
    assert!(status.success(), "{status}");
}
