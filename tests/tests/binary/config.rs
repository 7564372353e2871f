//! The configuration file: flags and environment override it, errors name the wrong key, and
//! `config check` finds all errors.
//!
//! Runs the binary with good and bad files; only some tests start a server.

use std::path::PathBuf;

use serde_json::Value;

use crate::dev::{Dev, command, fails, free_port};

struct File {
    dir: tempfile::TempDir,
}

impl File {
    fn new() -> File {
        File {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("seqsvr.toml")
    }

    /// Returns a command with this text as its configuration file.
    fn with(&self, text: &str, args: &[&str]) -> std::process::Command {
        std::fs::write(self.path(), text).unwrap();
        let mut command = command(args);
        command.env("SEQSVR_CONFIG", self.path());
        command
    }
}

#[test]
fn flag_over_environment_over_file() {
    let file = File::new();
    let [in_file, in_env, in_flag] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let text = format!("[client]\nserver = \"{in_file}\"\ntimeout = \"300ms\"\n");
    let said = fails(file.with(&text, &["next", "42"]), 3);
    assert!(said.contains(&in_file), "{said}");
    let mut command = file.with(&text, &["next", "42"]);
    command.env("SEQSVR_SERVER", &in_env);
    let said = fails(command, 3);
    assert!(said.contains(&in_env) && !said.contains(&in_file), "{said}");
    let mut command = file.with(&text, &["namespace", "list", "--server", &in_flag]);
    command.env("SEQSVR_SERVER", &in_env);
    let said = fails(command, 3);
    assert!(said.contains(&in_flag) && !said.contains(&in_env), "{said}");

    // The flag names the file as well, and overrides the environment.
    let other = file.dir.path().join("other.toml");
    std::fs::write(&other, format!("[client]\nserver = \"{in_flag}\"\n")).unwrap();
    let other = other.display().to_string();
    let said = fails(
        file.with(
            &text,
            &["next", "42", "--timeout", "300ms", "--config", &other],
        ),
        3,
    );
    assert!(said.contains(&in_flag), "{said}");
}

#[test]
fn a_server_takes_all_it_needs_from_the_file() {
    let dev = Dev::start();
    let file = File::new();
    let text = format!(
        "[alloc]\nname = \"b\"\nlisten = \"127.0.0.1:{}\"\nstores = [\"127.0.0.1:{}\", \"127.0.0.1:1\"]\nmemory-mib = 64\n",
        dev.port, dev.store_port
    );
    // The only remaining error is the address, which `dev` uses.
    let said = fails(file.with(&text, &["alloc"]), 1);
    assert!(
        said.contains(&dev.port.to_string()) && said.contains("in use"),
        "{said}"
    );
}

#[test]
fn what_is_wrong_in_the_file_is_named() {
    let file = File::new();
    let path = file.path().display().to_string();
    for (text, words) in [
        ("name = 1\n", "name stands outside of a table"),
        ("[aloc]\n", "no table [aloc]; there are [dev]"),
        ("[alloc]\nnme = \"a\"\n", "[alloc] has no nme; its keys are"),
        ("[client]\nport = 1\n", "[client] has no port"),
        ("[alloc]\nname = 1.5\n", "[alloc] name: use a string"),
        ("[alloc\n", "not TOML"),
    ] {
        let said = fails(file.with(text, &["alloc"]), 2);
        assert!(said.contains(words) && said.contains(&path), "{said}");
    }
    let said = fails(
        file.with(
            "[alloc]\nname = \"a\"\nstores = \"s\"\nitems-max = 0\n",
            &["alloc"],
        ),
        2,
    );
    assert!(
        said.contains("--items-max") && said.contains("1..=10000") && said.contains(&path),
        "{said}"
    );
    // A list in place of one value is an error, not cut to its first value.
    let said = fails(file.with("[alloc]\nname = [\"a\", \"b\"]\n", &["alloc"]), 2);
    assert!(said.contains("[alloc] name: takes one value"), "{said}");
    let mut missing = command(&["alloc"]);
    missing.env("SEQSVR_CONFIG", "/no/such/file");
    let said = fails(missing, 2);
    assert!(said.contains("/no/such/file"), "{said}");
}

/// Runs `config check`. Returns its exit code, output and errors.
fn checked(mut command: std::process::Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

const GOOD: &str = "[alloc]
name = \"a1\"
stores = [\"127.0.0.1:7801\", \"store-2\"]
redis-password = \"hunter2\"
items-max = 100
[client]
timeout = \"3s\"
";

#[test]
fn a_good_file_is_shown_without_its_secrets() {
    let file = File::new();
    let (code, told, said) = checked(file.with(GOOD, &["config", "check"]));
    assert_eq!((code, &*said), (Some(0), ""), "{told}");
    for line in [
        "[alloc] items-max = \"100\"\n",
        "[alloc] stores = \"127.0.0.1:7801\", \"store-2\"\n",
        "[alloc] redis-password = (set, not shown)\n",
        "[client] timeout = \"3s\"  (for init, next, ",
    ] {
        assert!(told.contains(line), "{line} is not in {told}");
    }
    assert!(!told.contains("hunter2"), "{told}");

    let (code, told, _) = checked(file.with(GOOD, &["config", "check", "--json"]));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["good"]), (Some(0), &Value::Bool(true)));
    let settings = told["settings"].as_array().unwrap();
    let password = settings.iter().find(|s| s["key"] == "redis-password");
    assert!(password.unwrap()["values"].is_null(), "{told}");

    let (code, told, _) = checked(file.with(GOOD, &["alloc", "--help"]));
    assert!(code == Some(0) && told.contains("[default: a1]"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

#[test]
fn all_that_is_wrong_is_found_at_once() {
    let file = File::new();
    let text = "[aloc]
[alloc]
nme = 1
listen = \"a b\"
stores = [\"127.0.0.1:1\", \"host:99999\"]
advertise = \"host\"
idle-after = \"5\"
redis-listen = \"::1\"
memory-mib = 1.5
[store]
id = 0
[dev]
port = 70000
[client]
server = \"127.0.0.1:1,b:c\"
timeout = \"soon\"
";
    let faults = [
        "[alloc] has no nme; its keys are name, listen",
        "[alloc] advertise: \"host\" names no port",
        "[alloc] idle-after: use a number and a unit",
        "[alloc] listen: \"a b\" is not a server address",
        "[alloc] memory-mib: use a string, a whole number",
        "[alloc] redis-listen: \"::1\" is not a server address",
        "[alloc] stores: \"host:99999\" is not a server address: a port is 1 to 65535",
        "no table [aloc]; there are [dev]",
        "[client] server: \"b:c\" is not a server address",
        "[client] timeout: use a number and a unit",
        "[dev] port: 70000 is not in 0..=65535",
        "[store] id: 0 is not in 1..",
    ];
    // A file from the environment and a named one give the same result. The flags are not checked.
    let mut by_name = file.with(text, &["config", "check"]);
    by_name.arg(file.path()).env_remove("SEQSVR_CONFIG");
    by_name.env("SEQSVR_LISTEN", "c c");
    for command in [file.with(text, &["config", "check"]), by_name] {
        let (code, told, said) = checked(command);
        assert_eq!(code, Some(2), "{told}{said}");
        for fault in faults {
            assert!(told.contains(fault), "{fault} is not in {told}");
        }
        assert_eq!(told.lines().count(), faults.len(), "{told}");
        let path = file.path().display().to_string();
        assert!(said.contains(&path) && said.contains("12 place"), "{said}");
    }
    let (code, told, _) = checked(file.with(text, &["config", "check", "--json"]));
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((code, &told["good"]), (Some(2), &Value::Bool(false)));
    let named = |f: &Value| f["table"] == "dev" && f["key"] == "port";
    assert!(told["faults"].as_array().unwrap().iter().any(named));

    // The error names the line and does not show it, because it may contain the password.
    let (code, told, said) =
        checked(file.with("[alloc]\nredis-password = hunter2\n", &["config", "check"]));
    assert_eq!((code, &*told), (Some(2), ""), "{said}");
    assert!(
        said.contains("line 2") && !said.contains("hunter2"),
        "{said}"
    );
    let said = fails(command(&["config", "check"]), 2);
    assert!(said.contains("SEQSVR_CONFIG"), "{said}");
}

#[test]
fn an_address_is_checked_before_anything_is_started() {
    for args in [
        ["--stores", "host:99999"],
        ["--advertise", "host"],
        ["--listen", "a b"],
        ["--redis-listen", "a/b"],
    ] {
        let mut alloc = command(&["alloc", "--name", "a", "--stores", "127.0.0.1:1"]);
        if args[0] == "--stores" {
            alloc = command(&["alloc", "--name", "a"]);
        }
        alloc.args(args);
        let said = fails(alloc, 2);
        assert!(
            said.contains(args[0]) && said.contains("host:port"),
            "{said}"
        );
    }
}
