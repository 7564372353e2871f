//! `seqsvr dev --secure`.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use seqsvr_test_support::process::{ServerProcess, free_ports};
use seqsvr_test_support::wait::{TEST_TIMEOUT, wait_until};

use crate::dev::{clean_command, expect_failure, run_ok};

/// Starts `dev` and waits until it serves numbers. Returns its banner too.
async fn start_dev(dir: &Path, name: &str, args: &[&str]) -> (ServerProcess, String) {
    let args = args.iter().map(|arg| (*arg).to_owned()).collect();
    let dev = ServerProcess::start(dir, name, args);
    let banner = wait_until("numbers of dev", TEST_TIMEOUT, async || {
        Some(dev.log()).filter(|log| log.contains("\nready after"))
    });
    let banner = banner.await;
    (dev, banner)
}

/// Runs the commands of the banner for `seqsvr`, which must succeed. Returns their outputs.
fn run_printed(banner: &str) -> Vec<String> {
    let commands = banner
        .lines()
        .filter_map(|line| line.strip_prefix("  seqsvr "));
    let commands = commands.map(|line| line.split(' ').collect::<Vec<&str>>());
    commands.map(|args| run_ok(&args)).collect()
}

/// Takes a number with the first command of the banner.
fn take_number(banner: &str) -> u64 {
    run_printed(banner)[0].trim().parse().unwrap()
}

/// Schedule: an operator starts `dev` with and without `--secure` by turns, and with one more
/// AllocSvr.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secure_dev_serves_only_holders_of_its_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data").display().to_string();
    let first = free_ports(3);
    let server = format!("127.0.0.1:{first}");
    let (port, store_port) = (first.to_string(), (first + 2).to_string());
    let ports = ["dev", "--port", &port, "--store-port", &store_port];
    let others = ["--redis-port=0", "--http-port=0", "--store-http-port=0"];
    let plain = [&ports[..], &others, &["--data-dir", &data]].concat();
    let secure = [&plain[..], &["--secure"]].concat();
    let secure_of_two = [&secure[..], &["--allocs=2"]].concat();

    let (mut dev, banner) = start_dev(dir.path(), "first", &secure).await;
    assert!(
        banner.contains("TLS 1.3 for gRPC, certificates of ")
            && banner.contains(" for 3649 days more; other endpoints: no TLS"),
        "{banner}"
    );
    let outputs = run_printed(&banner);
    assert_eq!(outputs[..3], ["1\n", "1\n", "1\n"]);
    let id: u64 = outputs[3].trim().parse().unwrap();
    assert!(id > 1 << 50, "an id of snowflake: {id}");
    assert!(
        outputs[4].contains("3649 days") && outputs.len() == 5,
        "{outputs:?}"
    );
    let path = |name: &str| dir.path().join("data/tls").join(name);
    let admin = path("admin-dev").display().to_string();
    let forced = ["raise-to", "42", "500", "--force"];
    run_ok(&[&forced[..], &["--server", &server, "--tls-dir", &admin]].concat());
    let stranger = ["next", "42", "--server", &server];
    let error = expect_failure(clean_command(&stranger), 1);
    assert!(error.contains("this server speaks TLS only"), "{error}");
    assert!(!error.contains("gave up"), "it took its time: {error}");
    assert!(dev.stop(TEST_TIMEOUT).await.success());
    let log = dev.log();
    assert!(
        log.contains("speaks no TLS; give it a directory with its certificate"),
        "{log}"
    );
    let change = log.lines().find(|line| line.contains("RaiseTo with force"));
    let change = change.expect(&log);
    for part in ["change requested", "/admin/dev at 127.0.0.1:", "Ok"] {
        assert!(change.contains(part), "{part}: {change}");
    }

    let made = log.lines().find(|line| line.contains("change of ids"));
    let made = made.expect(&log);
    assert!(
        made.contains("Create(Family") && made.contains("snowflake"),
        "{made}"
    );

    let (mut dev, banner) = start_dev(dir.path(), "plain", &plain).await;
    assert!(banner.contains("no TLS, no authentication"), "{banner}");
    let second = take_number(&banner);
    assert!(second > 1);
    assert!(dev.stop(TEST_TIMEOUT).await.success());

    let kept = ["ca.pem", "alloc-a1/key.pem", "client-dev/key.pem"];
    let before = kept.map(|name| fs::read(path(name)).unwrap());
    fs::remove_dir_all(path("store-1")).unwrap();
    let (mut dev, banner) = start_dev(dir.path(), "second", &secure_of_two).await;
    assert!(take_number(&banner) > second);
    assert_eq!(kept.map(|name| fs::read(path(name)).unwrap()), before);
    assert!(path("alloc-a2/key.pem").exists() && path("store-1/key.pem").exists());
    dev.kill();

    fs::set_permissions(path("alloc-a2/key.pem"), Permissions::from_mode(0o644)).unwrap();
    let error = expect_failure(clean_command(&secure_of_two), 2);
    let remedy = format!("or move {} away", dir.path().join("data/tls").display());
    for words in ["--secure: ", "alloc-a2/key.pem", "chmod 600", &remedy] {
        assert!(error.contains(words), "{error}");
    }
}
