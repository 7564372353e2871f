//! `seqsvr dev`, tried as a newcomer tries it, then killed and started again.

use std::time::{Duration, Instant};

use seqsvr_tests::process::{Process, free_ports, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_serves_is_killed_and_goes_on_above() {
    let _alone = crate::ALONE.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let ports = free_ports(2);
    let server = format!("127.0.0.1:{ports}");
    let data = dir.path().join("data").display().to_string();
    let (port, store_port) = (ports.to_string(), (ports + 1).to_string());
    let args = [
        "dev",
        "--data-dir",
        &data,
        "--port",
        &port,
        "--store-port",
        &store_port,
    ];
    let started = Instant::now();
    let mut dev = Process::start(dir.path(), "dev", args.map(str::to_owned).to_vec());

    let ask = async |args: &[&str]| {
        let out = run(&[args, &["--server", &server]].concat()).await;
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{args:?}: {stderr}");
        (
            String::from_utf8_lossy(&out.stdout).trim().to_owned(),
            stderr,
        )
    };
    for number in ["1", "2", "3"] {
        assert_eq!(ask(&["next", "42"]).await.0, number);
    }
    println!("three numbers {:.1?} after the start", started.elapsed());
    assert_eq!(ask(&["next", "alice"]).await.0, "1");
    assert_eq!(ask(&["current", "42"]).await.0, "3");

    dev.kill();
    dev.reap();
    let restarted = Instant::now();
    dev.restart();
    let (number, waited_for) = ask(&["next", "42"]).await;
    let took = restarted.elapsed();
    println!("restarted: {number} after {took:.1?}; the command said:\n{waited_for}");
    let number: u64 = number.parse().unwrap();
    assert!((4..=20_000).contains(&number), "{number}");
    assert!(took <= Duration::from_secs(15), "{took:?}");
    assert!(waited_for.contains("waiting: "), "{waited_for:?}");
}
