//! The configuration file: it stands below flags and environment, and what is wrong in it is named.

use std::path::PathBuf;

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

    /// A command run with this text as its file.
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

    // The flag names the file as well, and is stronger than the environment's.
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
    // All there is to complain of is the address, which `dev` has.
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
    let mut missing = command(&["alloc"]);
    missing.env("SEQSVR_CONFIG", "/no/such/file");
    let said = fails(missing, 2);
    assert!(said.contains("/no/such/file"), "{said}");
}
