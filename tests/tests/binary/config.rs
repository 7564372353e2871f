//! The configuration file: flags and environment override it, errors name the wrong key, and
//! `config check` finds all errors.
//!
//! Runs the binary with good and bad files; only some tests start a server.

use std::path::PathBuf;

use serde_json::Value;

use crate::dev::{DevServer, clean_command, expect_failure, free_port};

struct ConfigFile {
    dir: tempfile::TempDir,
}

impl ConfigFile {
    fn new() -> ConfigFile {
        ConfigFile {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("seqsvr.toml")
    }

    /// Returns a command with this text as its configuration file.
    fn command_with(&self, text: &str, args: &[&str]) -> std::process::Command {
        std::fs::write(self.path(), text).unwrap();
        let mut command = clean_command(args);
        command.env("SEQSVR_CONFIG", self.path());
        command
    }
}

#[test]
fn config_flag_overrides_environment_and_file() {
    let file = ConfigFile::new();
    let [in_file, in_env, in_flag] = [(); 3].map(|()| format!("127.0.0.1:{}", free_port()));
    let text = format!("[client]\nserver = \"{in_file}\"\ntimeout = \"300ms\"\n");
    let errors_text = expect_failure(file.command_with(&text, &["next", "42"]), 3);
    assert!(errors_text.contains(&in_file), "{errors_text}");
    let mut command = file.command_with(&text, &["next", "42"]);
    command.env("SEQSVR_SERVER", &in_env);
    let errors_text = expect_failure(command, 3);
    assert!(
        errors_text.contains(&in_env) && !errors_text.contains(&in_file),
        "{errors_text}"
    );
    let mut command = file.command_with(&text, &["namespace", "list", "--server", &in_flag]);
    command.env("SEQSVR_SERVER", &in_env);
    let errors_text = expect_failure(command, 3);
    assert!(
        errors_text.contains(&in_flag) && !errors_text.contains(&in_env),
        "{errors_text}"
    );

    // The flag names the file as well, and overrides the environment.
    let other = file.dir.path().join("other.toml");
    std::fs::write(&other, format!("[client]\nserver = \"{in_flag}\"\n")).unwrap();
    let other = other.display().to_string();
    let errors_text = expect_failure(
        file.command_with(
            &text,
            &["next", "42", "--timeout", "300ms", "--config", &other],
        ),
        3,
    );
    assert!(errors_text.contains(&in_flag), "{errors_text}");
}

#[test]
fn config_file_alone_configures_a_server() {
    let dev = DevServer::start();
    let file = ConfigFile::new();
    let text = format!(
        "[alloc]\nname = \"b\"\nlisten = \"127.0.0.1:{}\"\nstores = [\"127.0.0.1:{}\", \"127.0.0.1:1\"]\nsection-memory-mib = 64\n",
        dev.port, dev.store_port
    );
    // The only remaining error is the address, which `dev` uses.
    let errors_text = expect_failure(file.command_with(&text, &["alloc"]), 1);
    assert!(
        errors_text.contains(&dev.port.to_string()) && errors_text.contains("in use"),
        "{errors_text}"
    );
}

#[test]
fn config_file_errors_name_the_key() {
    let file = ConfigFile::new();
    let path = file.path().display().to_string();
    for (text, words) in [
        ("name = 1\n", "name is outside of a table"),
        ("[aloc]\n", "no table [aloc]; there are [dev]"),
        ("[alloc]\nnme = \"a\"\n", "[alloc] has no nme; its keys are"),
        ("[client]\nport = 1\n", "[client] has no port"),
        ("[alloc]\nname = 1.5\n", "[alloc] name: use a string"),
        ("[alloc\n", "not TOML"),
    ] {
        let errors_text = expect_failure(file.command_with(text, &["alloc"]), 2);
        assert!(
            errors_text.contains(words) && errors_text.contains(&path),
            "{errors_text}"
        );
    }
    let errors_text = expect_failure(
        file.command_with(
            "[alloc]\nname = \"a\"\nstores = \"s\"\nbatch-items-max = 0\n",
            &["alloc"],
        ),
        2,
    );
    assert!(
        errors_text.contains("--batch-items-max")
            && errors_text.contains("1..=10000")
            && errors_text.contains(&path),
        "{errors_text}"
    );
    // A list in place of one value is an error, not cut to its first value.
    let errors_text = expect_failure(
        file.command_with("[alloc]\nname = [\"a\", \"b\"]\n", &["alloc"]),
        2,
    );
    assert!(
        errors_text.contains("[alloc] name: takes one value"),
        "{errors_text}"
    );
    let mut missing = clean_command(&["alloc"]);
    missing.env("SEQSVR_CONFIG", "/no/such/file");
    let errors_text = expect_failure(missing, 2);
    assert!(errors_text.contains("/no/such/file"), "{errors_text}");
}

/// Runs `config check`. Returns its exit code, output and errors.
fn run_check(mut command: std::process::Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

const GOOD_FILE: &str = "[alloc]
name = \"a1\"
stores = [\"127.0.0.1:7801\", \"store-2\"]
batch-items-max = 100
[client]
timeout = \"3s\"
";

#[test]
fn config_check_prints_settings_and_no_secrets() {
    let file = ConfigFile::new();
    let (code, output, errors_text) = run_check(file.command_with(GOOD_FILE, &["config", "check"]));
    assert_eq!((code, &*errors_text), (Some(0), ""), "{output}");
    for line in [
        "[alloc] batch-items-max = \"100\"\n",
        "[alloc] stores = \"127.0.0.1:7801\", \"store-2\"\n",
        "[client] timeout = \"3s\"  (for init, next, ",
    ] {
        assert!(output.contains(line), "{line} is not in {output}");
    }
    let (code, output, _) = run_check(file.command_with(GOOD_FILE, &["config", "check", "--json"]));
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &output["valid"]), (Some(0), &Value::Bool(true)));

    // A secret of a former build is a mistake, and is not shown.
    let with_secret = GOOD_FILE.replace("[client]", "redis-password = \"hunter2\"\n[client]");
    let (code, output, _) =
        run_check(file.command_with(&with_secret, &["config", "check", "--json"]));
    assert!(!output.contains("hunter2"), "{output}");
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &output["valid"]), (Some(2), &Value::Bool(false)));
    let settings = output["settings"].as_array().unwrap();
    let password = settings.iter().find(|s| s["key"] == "redis-password");
    assert!(password.unwrap()["values"].is_null(), "{output}");
    let (code, output, _) = run_check(file.command_with(&with_secret, &["alloc", "--help"]));
    assert!(
        code == Some(0) && output.contains("[default: a1]"),
        "{output}"
    );
    assert!(!output.contains("hunter2"), "{output}");
}

#[test]
fn config_check_finds_all_errors() {
    let file = ConfigFile::new();
    let text = "[aloc]
[alloc]
nme = 1
listen = \"a b\"
stores = [\"127.0.0.1:1\", \"host:99999\"]
advertise = \"host\"
section-idle-timeout = \"5\"
redis-listen = \"::1\"
section-memory-mib = 1.5
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
        "[alloc] section-idle-timeout: use a number and a unit",
        "[alloc] listen: \"a b\" is not a server address",
        "[alloc] section-memory-mib: use a string, a whole number",
        "[alloc] redis-listen: \"::1\" is not a server address",
        "[alloc] stores: \"host:99999\" is not a server address: a port is 1 to 65535",
        "no table [aloc]; there are [dev]",
        "[client] server: \"b:c\" is not a server address",
        "[client] timeout: use a number and a unit",
        "[dev] port: 70000 is not in 0..=65535",
        "[store] id: 0 is not in 1..",
    ];
    // A file from the environment and a named one give the same result. The flags are not checked.
    let mut by_name = file.command_with(text, &["config", "check"]);
    by_name.arg(file.path()).env_remove("SEQSVR_CONFIG");
    by_name.env("SEQSVR_LISTEN", "c c");
    for command in [file.command_with(text, &["config", "check"]), by_name] {
        let (code, output, errors_text) = run_check(command);
        assert_eq!(code, Some(2), "{output}{errors_text}");
        for fault in faults {
            assert!(output.contains(fault), "{fault} is not in {output}");
        }
        assert_eq!(output.lines().count(), faults.len(), "{output}");
        let path = file.path().display().to_string();
        assert!(
            errors_text.contains(&path) && errors_text.contains("12 mistake"),
            "{errors_text}"
        );
    }
    let (code, output, _) = run_check(file.command_with(text, &["config", "check", "--json"]));
    let output: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &output["valid"]), (Some(2), &Value::Bool(false)));
    let named = |f: &Value| f["table"] == "dev" && f["key"] == "port";
    assert!(output["issues"].as_array().unwrap().iter().any(named));

    // The error names the line and does not show it, because it may contain the password.
    let (code, output, errors_text) =
        run_check(file.command_with("[alloc]\nredis-password = hunter2\n", &["config", "check"]));
    assert_eq!((code, &*output), (Some(2), ""), "{errors_text}");
    assert!(
        errors_text.contains("line 2") && !errors_text.contains("hunter2"),
        "{errors_text}"
    );
    let errors_text = expect_failure(clean_command(&["config", "check"]), 2);
    assert!(errors_text.contains("SEQSVR_CONFIG"), "{errors_text}");
}

#[test]
fn config_check_finds_routable_addresses() {
    let file = ConfigFile::new();
    let text = "[alloc]
name = \"a1\"
stores = [\"store-1\"]
listen = \"0.0.0.0\"
redis-listen = \"127.0.0.1\"
http-listen = \"alloc-1\"
[store]
id = 1
listen = \"[::1]:7800\"
http-listen = \"[::]:7880\"
";
    let (code, output, errors_text) = run_check(file.command_with(text, &["config", "check"]));
    assert_eq!(code, Some(2), "{output}{errors_text}");
    for fault in [
        "[alloc] listen: 0.0.0.0: other machines can reach this address",
        "[store] http-listen: [::]:7880: other machines can reach this address",
    ] {
        assert!(output.contains(fault), "{fault} is not in {output}");
    }
    assert_eq!(output.lines().count(), 2, "{output}");

    let insecure = text.replace("id = 1\n", "id = 1\ninsecure = true\n");
    let insecure = insecure.replace("listen = \"0.0.0.0\"", "insecure = true");
    let (code, output, _) = run_check(file.command_with(&insecure, &["config", "check"]));
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("[store] insecure = \"true\"\n"), "{output}");
    let (code, output, _) = run_check(file.command_with(
        "[alloc]\ninsecure = 1\n[store]\nmoved-data-dir = true\n",
        &["config", "check"],
    ));
    assert_eq!(code, Some(2), "{output}");
    for fault in [
        "[alloc] insecure: use true or false",
        "[store] has no moved-data-dir",
    ] {
        assert!(output.contains(fault), "{fault} is not in {output}");
    }
}

#[test]
fn bad_address_flags_are_rejected_before_start() {
    for args in [
        ["--stores", "host:99999"],
        ["--advertise", "host"],
        ["--listen", "a b"],
        ["--redis-listen", "a/b"],
    ] {
        let mut alloc = clean_command(&["alloc", "--name", "a", "--stores", "127.0.0.1:1"]);
        if args[0] == "--stores" {
            alloc = clean_command(&["alloc", "--name", "a"]);
        }
        alloc.args(args);
        let errors_text = expect_failure(alloc, 2);
        assert!(
            errors_text.contains(args[0]) && errors_text.contains("host:port"),
            "{errors_text}"
        );
    }
}
