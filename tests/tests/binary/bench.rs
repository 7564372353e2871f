//! `seqsvr bench`: its options, its result and its verification.
//!
//! Runs short loads against `seqsvr dev` and checks the reported numbers, and the recorded history
//! with the exact check.

use serde_json::Value;

use crate::dev::{Dev, refused};

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
fn run(dev: &Dev, more: &[&str]) -> Value {
    let mut args = vec![
        "bench",
        "--duration",
        "500ms",
        "--warm-up",
        "100ms",
        "--json",
    ];
    args.extend_from_slice(more);
    let result: Value = serde_json::from_str(&dev.done(&args)).unwrap();
    assert_eq!(result["errors"], serde_json::json!({}), "{result}");
    result
}

fn number(result: &Value, name: &str) -> u64 {
    result[name].as_u64().unwrap()
}

#[test]
fn every_mode_measures_and_verifies() {
    let dev = Dev::start();
    dev.done(&["namespace", "create", "other"]);
    dev.done(&[
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

    let one = run(&dev, &["--distribution", "zipf", "--history", history]);
    assert_eq!(number(&one, "calls"), number(&one, "numbers"));
    assert!(number(&one, "calls") > 100, "{one}");
    let latency = &one["latency_ns"];
    let percentiles = ["p50", "p90", "p99", "p99.9", "max"].map(|p| number(latency, p));
    assert!(percentiles.is_sorted() && percentiles[0] > 0, "{latency}");
    assert!(number(&one["cluster"], "numbers") >= number(&one, "numbers"));
    let checked = dev.done(&["check", history]);
    assert!(checked.contains("no rule is broken"), "{checked}");

    let many = run(
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
    assert_eq!(number(&many, "numbers"), 150 * number(&many, "calls"));
    let keyed = run(&dev, &["--key-bytes", "20", "--connections", "3"]);
    assert!(number(&keyed, "calls") > 100, "{keyed}");
    // All callers use one sequence, so that answers overtake each other.
    let hot = run(&dev, &["--distribution", "hot", "--in-flight", "256"]);
    assert!(number(&hot, "calls") > 100, "{hot}");
    let current = run(&dev, &["--mode", "current", "--batch", "10"]);
    assert_eq!(number(&current, "numbers"), 10 * number(&current, "calls"));
}

#[test]
fn without_the_sdk_it_measures_and_verifies_too() {
    let dev = Dev::start();
    dev.done(&[
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
        let result = run(&dev, &[mode, &odd[..]].concat());
        assert!(number(&result, "calls") > 50, "{result}");
        assert_eq!(number(&result, "numbers"), items * number(&result, "calls"));
    }
    let keys = run(
        &dev,
        &["--mode", "pipe", "--batch", "5", "--key-bytes", "20"],
    );
    assert_eq!(number(&keys, "numbers"), 5 * number(&keys, "calls"));
    for batch in ["1", "10"] {
        let current = run(&dev, &["--unary", "--mode", "current", "--batch", batch]);
        let items = batch.parse::<u64>().unwrap();
        assert_eq!(
            number(&current, "numbers"),
            items * number(&current, "calls")
        );
    }
    // The bench reports an item error of the service, unary as well as through the SDK.
    for mode in [&["--unary"][..], &["--mode", "pipe"][..]] {
        let said = refused(&dev.ask(&[&KEYS_IN_DENSE[..], mode].concat()), 1);
        assert!(said.contains("no call was answered"), "{said}");
    }
}

#[test]
fn an_open_loop_keeps_its_rate() {
    let dev = Dev::start();
    let result = run(&dev, &["--rate", "200"]);
    // The calls due in the measured half second, and late ones of the warm-up. Without a rate there
    // would be thousands.
    let calls = number(&result, "calls");
    assert!((1..=130).contains(&calls), "{calls}");
}

#[test]
fn what_cannot_be_run_is_said() {
    let dev = Dev::start();
    for (args, words) in [
        (&["-n", "nowhere"][..], "there is no namespace \"nowhere\""),
        (&["--batch", "5"][..], "--batch is for"),
        (&["--mode", "pipe", "--unary"][..], "--unary"),
        (&["--keys", "0"][..], "--keys"),
        (&["--key-bytes", "9"][..], "--key-bytes"),
    ] {
        let said = refused(&dev.ask(&[&["bench"], args].concat()), 2);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    // Uids in a keyed namespace are keys. The server rejects keys in a dense one.
    let said = refused(&dev.ask(&KEYS_IN_DENSE), 1);
    assert!(said.contains("no call was answered"), "{said}");
}
