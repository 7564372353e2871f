//! Namespaces on the command line: created, altered and listed, with their strictness.
//!
//! Starts `seqsvr dev` and compares the output of the commands.

use serde_json::Value;

use crate::dev::{DevServer, expect_exit_code};

/// Returns the line of `namespace list` for one namespace, and `strict` of its JSON.
fn read_listed(dev: &DevServer, name: &str) -> (String, bool) {
    let head = format!("{name} (id ");
    let lines = dev.run_client_ok(&["namespace", "list"]);
    let line = lines.lines().find(|line| line.starts_with(&head));
    let objects = dev.run_client_ok(&["namespace", "list", "--json"]);
    let objects: Vec<Value> = objects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let object = objects.iter().find(|object| object["name"] == name);
    let strict = object.unwrap()["strict"].as_bool();
    (line.unwrap().to_owned(), strict.unwrap())
}

#[test]
fn namespace_is_strict_when_created_or_altered_so() {
    let dev = DevServer::start();
    let made = dev.run_client_ok(&["namespace", "create", "orders", "--strict"]);
    assert!(made.trim_end().ends_with("; strict"), "{made}");
    assert_eq!(
        made,
        dev.run_client_ok(&["namespace", "create", "orders", "--strict"]),
        "the same again"
    );
    let other = expect_exit_code(&dev.run_client(&["namespace", "create", "orders"]), 1);
    assert!(other.contains("other settings"), "{other}");
    let (line, strict) = read_listed(&dev, "orders");
    assert!(strict && line.ends_with("; strict"), "{line}");
    assert_eq!(dev.run_client_ok(&["next", "7", "-n", "orders"]), "1\n");

    let (line, strict) = read_listed(&dev, "default");
    assert!(!strict && !line.contains("strict"), "{line}");
    for wanted in ["true", "true", "false"] {
        let errors_text = dev.run_client_ok(&["namespace", "alter", "default", "--strict", wanted]);
        let (line, strict) = read_listed(&dev, "default");
        assert_eq!(errors_text.trim_end(), line);
        assert_eq!(strict.to_string(), wanted);
    }
    // Altering another setting leaves `strict` unchanged.
    dev.run_client_ok(&["namespace", "alter", "orders", "--step", "50"]);
    let (line, strict) = read_listed(&dev, "orders");
    assert!(strict && line.contains("step 50 to"), "{line}");
}
