//! `seqsvr dev` as a new user runs it.
//!
//! Fault: SIGKILL and restart while a command waits for the server. Measured: answers, and the time
//! until the first number.

use std::time::{Duration, Instant};

use seqsvr_test_support::process::{ServerProcess, free_ports, run_command};

use crate::scenario::ScenarioOutcome;

/// Maximum time to end after SIGTERM, when there is no caller left to serve.
const EXIT_TIMEOUT: Duration = Duration::from_secs(15);

/// Time between a command's start and the restart: long enough that the command logs that it waits.
const COMMAND_LEAD_TIME: Duration = Duration::from_secs(1);

/// Serves numbers, is killed, continues above them, and ends on SIGTERM.
pub async fn dev() -> ScenarioOutcome {
    let mut outcome = ScenarioOutcome::default();

    // 1. Start `dev`.
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
    let mut dev = ServerProcess::start(dir.path(), "dev", args.map(str::to_owned).to_vec());

    let run_client = async |args: &[&str]| {
        let out = run_command(&[args, &["--server", &server]].concat()).await;
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        let stdout = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        match out.status.success() {
            true => Ok((stdout, stderr)),
            false => Err(format!("{args:?}: {stderr}")),
        }
    };

    // 2. It serves numbers of a uid and of a key.
    for number in ["1", "2", "3"] {
        assert_eq!(
            outcome.measure_call(run_client(&["next", "42"])).await.0,
            number
        );
    }
    outcome.note(format!(
        "three numbers {:.1?} after the start",
        started.elapsed()
    ));
    assert_eq!(
        outcome.measure_call(run_client(&["next", "alice"])).await.0,
        "1"
    );
    assert_eq!(
        outcome.measure_call(run_client(&["current", "42"])).await.0,
        "3"
    );

    // 3. Kill it. A command that starts before the restart waits for it.
    dev.kill();
    // The command starts while no server runs: it waits and logs the reason.
    let restart = async {
        tokio::time::sleep(COMMAND_LEAD_TIME).await;
        dev.restart();
        Instant::now()
    };
    let (answer, restarted) = tokio::join!(run_client(&["next", "42"]), restart);
    let took = restarted.elapsed();
    let (number, command_log) = outcome.measure_call(async { answer }).await;
    outcome.note(format!(
        "restarted: {number} after {took:.1?}; the command logged:\n{command_log}"
    ));

    // 4. The number continues above those before, in time.
    let number: u64 = number.parse().unwrap();
    assert!((4..=20_000).contains(&number), "{number}");
    assert!(took <= Duration::from_secs(15), "{took:?}");
    assert!(command_log.contains("waiting: "), "{command_log:?}");

    // 5. SIGTERM ends it.
    let status = dev.stop(EXIT_TIMEOUT).await;
    assert!(status.success(), "{status}");
    outcome
}
