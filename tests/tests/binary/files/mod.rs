//! Files and directories that the binary makes: closed to other users, for any umask.
//!
//! Runs the binary with the umask 0, on directories of all kinds, and as another user.

mod principals;
mod restore;
mod secrets;
mod wiped_stores;

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use seqsvr_test_support::process::release_binary;

use crate::dev::{DevServer, clean_command, expect_exit_code, expect_failure, free_port};

/// User and group that own nothing, by convention.
const OTHER_USER: u32 = 65_534;

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Returns everything below a directory, and the directory.
fn paths_below(dir: &Path) -> Vec<PathBuf> {
    let mut all = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(paths_below(&path)),
            false => all.push(path),
        }
    }
    all
}

fn assert_closed(dir: &Path) {
    let paths = paths_below(dir);
    assert!(paths.len() > 5, "{paths:?}");
    for path in paths {
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        let mode = mode_of(&path);
        assert_eq!(mode, expected, "{} has mode {mode:04o}", path.display());
    }
}

/// Returns a command of the binary under a shell's umask, after `script`, which sees the process id
/// of the binary as `$$`.
fn command_after(script: &str, args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask 0; {script} exec \"$0\" \"$@\"")]);
    shell.arg(release_binary()).args(args).stdin(Stdio::null());
    shell
}

fn run_backup(dev: &DevServer, script: &str, file: &str) -> Output {
    let server = format!("127.0.0.1:{}", dev.port);
    let mut command = command_after(script, &["backup", file, "--server", &server]);
    command.current_dir(dev.dir.path());
    command.output().unwrap()
}

#[test]
fn every_file_that_is_made_is_closed_to_other_users() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (port, store_port) = (free_port().to_string(), free_port().to_string());
    let mut args = vec!["dev", "--port", &port, "--store-port", &store_port];
    args.extend([
        "--redis-port",
        "0",
        "--http-port",
        "0",
        "--store-http-port",
        "0",
    ]);
    let data_text = data.display().to_string();
    args.extend(["--data-dir", &data_text]);
    let mut dev = command_after("", &args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = format!("127.0.0.1:{port}");
    let next = clean_command(&["next", "42", "--timeout", "60s", "--server", &server]).output();
    assert!(next.unwrap().status.success());
    let file = dir.path().join("backup");
    let file_text = file.display().to_string();
    let args = ["backup", &file_text, "--server", &server];
    let backup = command_after("", &args).output().unwrap();
    dev.kill().unwrap();
    dev.wait().unwrap();
    assert!(backup.status.success(), "{backup:?}");
    assert_eq!(mode_of(&file), 0o600);
    assert_closed(&data);

    // A restore makes a snapshot.
    let restored = dir.path().join("restored");
    let restored_text = restored.display().to_string();
    let mut args = vec![
        "restore",
        &file_text,
        "--id",
        "1",
        "--data-dir",
        &restored_text,
    ];
    args.extend(["--listen", "127.0.0.1:1", "--max-seq-margin", "1000000"]);
    args.extend(["--start-margin", "1000000", "--epoch-margin", "1000000"]);
    args.extend(["--ids-from", "2090-01-01"]);
    let restore = command_after("", &args).output().unwrap();
    assert!(restore.status.success(), "{restore:?}");
    assert_closed(&restored);
}

#[test]
fn open_directory_of_a_server_is_closed_at_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let used = dir.path().join("used");
    fs::create_dir(&used).unwrap();
    fs::write(used.join("lock"), "").unwrap();
    set_mode(&used, 0o775);

    // It stops at the address, after the directory was closed.
    let mut store = clean_command(&["store", "--id", "1", "--listen", &listen, "--data-dir"]);
    store.arg(&used);
    let output = store.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(mode_of(&used), 0o700);
    let log =
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let lines = log
        .lines()
        .filter(|l| l.contains("closed the directory") && l.contains("0775"));
    assert_eq!(lines.count(), 1, "{log}");

    set_mode(&used, 0o755);
    let mut alloc = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
    alloc.args(["--listen", &listen, "--state-dir"]).arg(&used);
    assert_eq!(alloc.output().unwrap().status.code(), Some(1));
    assert_eq!(mode_of(&used), 0o700);
}

#[test]
fn directory_that_other_users_may_write_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let shared = dir.path().join("shared");
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o777);
    set_mode(dir.path(), 0o755);
    let listen = format!("127.0.0.1:{}", free_port());
    let path = shared.display().to_string();
    let store = || {
        let mut args = vec!["store", "--id", "1", "--listen", &listen];
        args.extend(["--data-dir", &path]);
        clean_command(&args)
    };

    // Its own files make it no directory of a server, so its mode stays.
    fs::write(shared.join("file"), "").unwrap();
    let assert_rejected = |errors: String| {
        for words in [
            format!("--data-dir {path}"),
            "mode 0777".to_owned(),
            format!("`chmod 700 {path}`"),
        ] {
            assert!(errors.contains(&words), "{errors}");
        }
        assert_eq!(
            fs::read_dir(&shared).unwrap().count(),
            1,
            "nothing was made"
        );
        assert_eq!(mode_of(&shared), 0o777);
    };
    assert_rejected(expect_failure(store(), 2));

    // Another user may not change the mode.
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can start a process of another user");
    }
    fs::rename(shared.join("file"), shared.join("lock")).unwrap();
    let mut command = store();
    command.uid(OTHER_USER).gid(OTHER_USER);
    match command.output() {
        Ok(output) => assert_rejected(expect_exit_code(&output, 2)),
        Err(e) => println!("SKIPPED: user {OTHER_USER} cannot run the binary: {e}"),
    }
}

/// Schedule: another user makes a directory of mode 0700 where root starts a server, and replaces
/// its files later.
#[test]
fn directory_of_another_user_is_rejected_by_root() {
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED: only root can make a directory of another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let theirs = dir.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    set_mode(&theirs, 0o700);
    std::os::unix::fs::chown(&theirs, Some(OTHER_USER), None).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    let mut store = clean_command(&["store", "--id", "1", "--listen", &listen, "--data-dir"]);
    store.arg(&theirs);
    let mut alloc = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
    alloc
        .args(["--listen", &listen, "--state-dir"])
        .arg(&theirs);
    for command in [store, alloc] {
        let errors = expect_failure(command, 2);
        let words = format!("{}: it belongs to user {OTHER_USER}", theirs.display());
        assert!(errors.contains(&words), "{errors}");
        assert_eq!(
            fs::read_dir(&theirs).unwrap().count(),
            0,
            "nothing was made"
        );
    }
}

/// Schedule: the backup is made in a directory that an attacker may write, who makes the file or a
/// temporary file a link to a file of the operator.
#[test]
fn backup_follows_no_link() {
    let dev = DevServer::start();
    let victim = dev.dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();

    symlink("victim", dev.dir.path().join("link")).unwrap();
    symlink("nowhere", dev.dir.path().join("dangling")).unwrap();
    for file in ["link", "dangling"] {
        let errors = expect_exit_code(&run_backup(&dev, "", file), 2);
        assert!(
            errors.contains("exists: a backup is never overwritten"),
            "{errors}"
        );
    }
    assert!(!dev.dir.path().join("nowhere").exists());

    // The temporary name of earlier builds was the name and the process id.
    let output = run_backup(&dev, "ln -s victim file.$$.part;", "file");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert_eq!(mode_of(&dev.dir.path().join("file")), 0o600);
    let names = fs::read_dir(dev.dir.path()).unwrap();
    let parts = names.filter(|n| {
        n.as_ref()
            .unwrap()
            .path()
            .extension()
            .is_some_and(|e| e == "part")
    });
    assert_eq!(parts.count(), 1, "only the planted link remains");
}

#[test]
fn backup_to_stdout_is_whole_or_a_failure() {
    let dev = DevServer::start();
    dev.run_client_ok(&["next", "42"]);
    let output = dev.run_client(&["backup", "-"]);
    assert!(output.status.success(), "{output:?}");
    let report = String::from_utf8(output.stderr).unwrap();
    for words in ["cluster   ", "sections  1\n", "families  1: snowflake\n"] {
        assert!(report.contains(words), "{report}");
    }
    assert!(!dev.dir.path().join("-").exists());

    // The same bytes are a backup.
    let file = dev.dir.path().join("backup");
    fs::write(&file, &output.stdout).unwrap();
    let restored = dev.dir.path().join("restored");
    let mut restore = clean_command(&["restore"]);
    restore.arg(&file).arg("--data-dir").arg(&restored);
    restore.args(["--id", "1", "--listen", "127.0.0.1:1"]);
    let without_margins = restore.output().unwrap();
    assert_eq!(without_margins.status.code(), Some(2));
    let errors = String::from_utf8(without_margins.stderr).unwrap();
    for words in [
        "--epoch-margin and --ids-from",
        "  families  1: snowflake\n",
    ] {
        assert!(errors.contains(words), "{errors}");
    }
    restore.args(["--max-seq-margin", "1000000", "--start-margin", "1000000"]);
    restore.args(["--epoch-margin", "1000000"]);
    restore.args(["--ids-from", "2090-01-01"]);
    let restore = restore.output().unwrap();
    assert!(restore.status.success(), "{restore:?}");

    // A reader that goes away has no backup: unlike with other results, that is a failure.
    let mut child = clean_command(&["backup", "-"])
        .env("SEQSVR_SERVER", format!("127.0.0.1:{}", dev.port))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let errors = expect_exit_code(&output, 1);
    assert!(
        errors.contains("no whole backup") && errors.contains("stdout"),
        "{errors}"
    );

    // No server: a retry makes sense.
    let server = format!("127.0.0.1:{}", free_port());
    let failed = clean_command(&["backup", "-", "--timeout", "1s", "--server", &server]);
    let errors = expect_failure(failed, 3);
    assert!(errors.contains(&server), "{errors}");
}

/// A stopped store's directory can be written to stdout too.
#[test]
fn salvage_to_stdout_is_a_backup() {
    let mut dev = DevServer::start();
    dev.run_client_ok(&["next", "42"]);
    dev.kill();
    let mut command = clean_command(&["backup", "-", "--data-dir"]);
    command
        .arg(dev.data().join("store-1"))
        .env("TMPDIR", dev.dir.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report = String::from_utf8(output.stderr).unwrap();
    assert!(
        report.contains("WARNING") && report.contains("sections  1\n"),
        "{report}"
    );
    assert!(output.stdout.starts_with(b"SEQB"));
    let left = fs::read_dir(dev.dir.path()).unwrap().count();
    assert_eq!(left, 2, "the copy of the log is deleted");
}

/// Schedule: the record of the cluster cannot be read at one start. A supervisor repeats a start
/// that ended with code 1, and gives up after code 2.
#[test]
fn alloc_that_cannot_read_its_cluster_ends_with_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let listen = format!("127.0.0.1:{}", free_port());
    let alloc = || {
        let mut command = clean_command(&["alloc", "--name", "a1", "--stores", "127.0.0.1:1"]);
        command.args(["--listen", &listen, "--state-dir"]);
        command.arg(&state);
        command
    };
    fs::create_dir_all(state.join("cluster")).unwrap();
    let errors = expect_failure(alloc(), 1);
    for words in ["state/cluster", "os error", "start this AllocSvr again"] {
        assert!(errors.contains(words), "{words}: {errors}");
    }
    assert!(!errors.contains("--join-cluster"), "{errors}");
    // A record that can be read and is none: only the operator can say which cluster it was.
    fs::remove_dir(state.join("cluster")).unwrap();
    fs::write(state.join("cluster"), "{").unwrap();
    let errors = expect_failure(alloc(), 2);
    assert!(errors.contains("--join-cluster"), "{errors}");
}
