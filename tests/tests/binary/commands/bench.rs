//! `seqsvr bench`: its options, its result and its verification.
//!
//! Runs short loads against `seqsvr dev` and checks the reported numbers, and the recorded history
//! with the exact check.

use seqsvr_test_support::process::run_command;
use seqsvr_test_support::process_cluster::ProcessCluster;
use serde_json::Value;

use crate::dev::{DevServer, expect_exit_code};

/// Keys in a dense namespace, which the service rejects item by item.
const KEYS_IN_DENSE: [&str; 7] = [
    "bench",
    "--duration",
    "200ms",
    "--key-bytes",
    "20",
    "-n",
    "default",
];

/// Makes a short run and returns its result.
fn run_bench(dev: &DevServer, more: &[&str]) -> Value {
    let mut args = vec![
        "bench",
        "--duration",
        "500ms",
        "--warm-up",
        "100ms",
        "--json",
    ];
    args.extend_from_slice(more);
    let result: Value = serde_json::from_str(&dev.run_client_ok(&args)).unwrap();
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    result
}

fn json_number(result: &Value, name: &str) -> u64 {
    result[name].as_u64().unwrap()
}

#[test]
fn bench_modes_all_measure_and_verify() {
    let dev = DevServer::start();
    dev.run_client_ok(&["namespace", "create", "other"]);
    dev.run_client_ok(&[
        "namespace",
        "create",
        "thirds",
        "--stride",
        "3",
        "--offset",
        "1",
    ]);
    let history = dev.dir.path().join("history");
    let history = history.to_str().unwrap();

    let result = run_bench(&dev, &["--distribution", "zipf", "--history", history]);
    assert_eq!(
        json_number(&result, "calls"),
        json_number(&result, "numbers")
    );
    assert!(json_number(&result, "calls") > 100, "{result}");
    let latency = &result["latency_ns"];
    let percentiles = ["p50", "p90", "p99", "p99.9", "max"].map(|p| json_number(latency, p));
    assert!(percentiles.is_sorted() && percentiles[0] > 0, "{latency}");
    assert!(json_number(&result["cluster"], "numbers_issued") >= json_number(&result, "numbers"));
    let checked = dev.run_client_ok(&["check", history]);
    assert!(checked.contains("no rule is broken"), "{checked}");

    let many = run_bench(
        &dev,
        &[
            "--mode",
            "next-many",
            "--batch",
            "50",
            "-n",
            "other,thirds",
            "-c",
            "3",
        ],
    );
    assert_eq!(
        json_number(&many, "numbers"),
        150 * json_number(&many, "calls")
    );
    let keyed = run_bench(&dev, &["--key-bytes", "20", "--connections", "3"]);
    assert!(json_number(&keyed, "calls") > 100, "{keyed}");
    // All callers use one sequence, so that answers overtake each other.
    let hot = run_bench(&dev, &["--distribution", "hot", "--in-flight", "256"]);
    assert!(json_number(&hot, "calls") > 100, "{hot}");
    let current = run_bench(&dev, &["--mode", "current", "--batch", "10"]);
    assert_eq!(
        json_number(&current, "numbers"),
        10 * json_number(&current, "calls")
    );
}

#[test]
fn bench_report_says_what_it_verified() {
    let dev = DevServer::start();
    for (mode, is_verified) in [("next", true), ("pipe", true), ("current", false)] {
        let args = ["bench", "--duration", "200ms", "--mode", mode];
        let report = dev.run_client_ok(&args);
        let line = report.lines().find(|line| line.starts_with("verified  "));
        assert_eq!(line.is_some(), is_verified, "{mode}: {report}");
        let is_exact = line.is_none_or(|line| line.contains("each is new, and greater than"));
        assert!(is_exact, "{mode}: {report}");
    }
}

#[test]
fn bench_without_the_sdk_measures_and_verifies() {
    let dev = DevServer::start();
    dev.run_client_ok(&[
        "namespace",
        "create",
        "odd",
        "--stride",
        "2",
        "--offset",
        "1",
    ]);
    let odd = ["-n", "odd", "-c", "3"];
    for (mode, items) in [
        (&["--mode", "pipe", "--batch", "50"][..], 150),
        (&["--unary"][..], 3),
        (&["--unary", "--mode", "next-many", "--batch", "20"][..], 60),
    ] {
        let result = run_bench(&dev, &[mode, &odd[..]].concat());
        assert!(json_number(&result, "calls") > 50, "{result}");
        assert_eq!(
            json_number(&result, "numbers"),
            items * json_number(&result, "calls")
        );
    }
    let keys = run_bench(
        &dev,
        &["--mode", "pipe", "--batch", "5", "--key-bytes", "20"],
    );
    assert_eq!(
        json_number(&keys, "numbers"),
        5 * json_number(&keys, "calls")
    );
    for batch in ["1", "10"] {
        let current = run_bench(&dev, &["--unary", "--mode", "current", "--batch", batch]);
        let items = batch.parse::<u64>().unwrap();
        assert_eq!(
            json_number(&current, "numbers"),
            items * json_number(&current, "calls")
        );
    }
}

#[test]
fn bench_open_loop_keeps_its_rate() {
    let dev = DevServer::start();
    let result = run_bench(&dev, &["--rate", "200"]);
    // The calls due in the measured half second, and late ones of the warm-up. Without a rate there
    // would be thousands.
    let calls = json_number(&result, "calls");
    assert!((1..=130).contains(&calls), "{calls}");
}

#[test]
fn bench_with_bad_options_names_them() {
    let dev = DevServer::start();
    for (args, words) in [
        (&["-n", "nowhere"][..], "there is no namespace \"nowhere\""),
        (&["--batch", "5"][..], "--batch is for"),
        (&["--mode", "pipe", "--unary"][..], "--unary"),
        (&["--keys", "0"][..], "--keys"),
        (&["--key-bytes", "9"][..], "--key-bytes"),
        (&["--family", "orders"][..], "--family is for --mode ids"),
    ] {
        let errors_text = expect_exit_code(&dev.run_client(&[&["bench"], args].concat()), 2);
        assert!(errors_text.contains(words), "{args:?}: {errors_text}");
    }
    // Uids in a keyed namespace are keys. The server rejects keys in a dense one.
    for mode in [&[][..], &["--unary"], &["--mode", "pipe"]] {
        let args = [&KEYS_IN_DENSE[..], mode].concat();
        let errors_text = expect_exit_code(&dev.run_client(&args), 1);
        let has_words = errors_text.contains("no call was answered");
        assert!(has_words, "{mode:?}: {errors_text}");
    }
}

#[test]
fn bench_takes_no_numbers_of_namespaces_that_it_was_not_given() {
    let dev = DevServer::start();
    run_bench(&dev, &["--keys", "1"]);
    run_bench(&dev, &["--keys", "1", "--key-bytes", "10"]);
    let listed = dev.run_client_ok(&["namespace", "list"]);
    for own in ["bench ", "bench-keys "] {
        assert!(listed.contains(own), "{listed}");
    }
    assert_eq!(dev.run_client_ok(&["next", "0"]), "1\n");
    let own = dev.run_client_ok(&["next", "0", "-n", "bench"]);
    assert!(own.trim().parse::<u64>().unwrap() > 100, "{own}");
}

/// Schedule: one of three stores is dead. The counters of the cluster were requested from it for
/// the whole time of the run, which then had no call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_beside_a_dead_store_measures_and_names_it() {
    let mut cluster = ProcessCluster::start(3, 1, 3_000).await;
    let dead = (cluster.leader().await + 1) % 3;
    cluster.kill_store(dead);
    let run = [
        "bench",
        "--duration",
        "500ms",
        "--warm-up",
        "100ms",
        "--json",
        "--server",
    ];
    let output = run_command(&[&run[..], &[&*cluster.alloc_addresses[0]]].concat()).await;
    assert!(output.status.success(), "{output:?}");
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json_number(&result, "calls") > 100, "{result}");
    let silent = serde_json::json!([cluster.store_addresses[dead]]);
    assert_eq!(result["cluster"]["silent"], silent, "{result}");
}
