//! Namespaces on the command line: created, altered and listed, with their strictness.
//!
//! Starts `seqsvr dev` and compares the output of the commands.

use serde_json::Value;

use crate::dev::{Dev, refused};

/// Returns the line of `namespace list` for one namespace, and `strict` of its JSON.
fn listed(dev: &Dev, name: &str) -> (String, bool) {
    let head = format!("{name} (id ");
    let lines = dev.done(&["namespace", "list"]);
    let line = lines.lines().find(|line| line.starts_with(&head));
    let objects = dev.done(&["namespace", "list", "--json"]);
    let objects: Vec<Value> = objects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let object = objects.iter().find(|object| object["name"] == name);
    let strict = object.unwrap()["strict"].as_bool();
    (line.unwrap().to_owned(), strict.unwrap())
}

#[test]
fn a_namespace_is_strict_when_made_so_or_altered() {
    let dev = Dev::start();
    let made = dev.done(&["namespace", "create", "orders", "--strict"]);
    assert!(made.trim_end().ends_with("; strict"), "{made}");
    assert_eq!(
        made,
        dev.done(&["namespace", "create", "orders", "--strict"]),
        "the same again"
    );
    let other = refused(&dev.ask(&["namespace", "create", "orders"]), 1);
    assert!(other.contains("other settings"), "{other}");
    let (line, strict) = listed(&dev, "orders");
    assert!(strict && line.ends_with("; strict"), "{line}");
    assert_eq!(dev.done(&["next", "7", "-n", "orders"]), "1\n");

    let (line, strict) = listed(&dev, "default");
    assert!(!strict && !line.contains("strict"), "{line}");
    for wanted in ["true", "true", "false"] {
        let said = dev.done(&["namespace", "alter", "default", "--strict", wanted]);
        let (line, strict) = listed(&dev, "default");
        assert_eq!(said.trim_end(), line);
        assert_eq!(strict.to_string(), wanted);
    }
    // Altering another setting leaves `strict` unchanged.
    dev.done(&["namespace", "alter", "orders", "--step", "50"]);
    let (line, strict) = listed(&dev, "orders");
    assert!(strict && line.contains("step 50 to"), "{line}");
}
