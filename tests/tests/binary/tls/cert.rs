//! `seqsvr cert`: what it makes, what it shows, and what it rejects.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use super::{TestAuthority, text_of};
use crate::dev::{assert_bad_input, clean_command, expect_failure, run_ok};

/// Returns what `cert show --json` prints, and the warnings.
fn show_json(paths: &[&str]) -> (Vec<Value>, String) {
    let mut command = clean_command(&["cert", "show", "--json"]);
    let output = command.args(paths).output().unwrap();
    let warnings = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{warnings}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (lines.collect(), warnings)
}

fn mode_of(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_certificate_of_each_role_is_made_and_shown() {
    let ca = TestAuthority::create();
    let hosts = [
        "--host=Store1.internal",
        "--host=10.0.0.7",
        "--host=fd00::7",
    ];
    let store = ca.issue("store", "s1", &hosts);
    ca.issue("alloc", "a1", &["--host", "a1.internal", "--days", "40"]);
    ca.issue("admin", "alice", &[]);
    ca.issue("client", "billing", &["--days=36500"]);

    let (shown, warnings) = show_json(&[&ca.dir()]);
    assert_eq!(warnings, "");
    let fields = |value: &Value| {
        let text = |key: &str| value[key].as_str().unwrap_or("-").to_owned();
        let days = value["days_left"].as_i64().unwrap();
        (text("domain"), text("role"), text("name"), days)
    };
    let row = |role: &str, name: &str, days| ("prod".into(), role.into(), name.into(), days);
    // Some milliseconds of the first day are over.
    let expected = [
        row("ca", "-", 3_649),
        row("admin", "alice", 364),
        row("alloc", "a1", 39),
        row("client", "billing", 3_649),
        row("store", "s1", 364),
    ];
    assert_eq!(shown.iter().map(fields).collect::<Vec<_>>(), expected);
    let of_store = &shown[4];
    let hosts = ["store1.internal", "10.0.0.7", "fd00::7"];
    assert_eq!(of_store["hosts"], Value::from(hosts.to_vec()));
    assert_eq!(of_store["problem"], Value::Null);
    assert_eq!(of_store["file"], format!("{}/cert.pem", store.display()));
    let serials: Vec<_> = shown.iter().map(|v| v["serial"].to_string()).collect();
    let mut unique = serials.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), serials.len(), "{serials:?}");

    let text = run_ok(&["cert", "show", text_of(&store), &ca.dir()]);
    let line = text.lines().find(|line| line.contains("store-s1/cert.pem"));
    let line = line.unwrap();
    assert!(
        line.contains(": store s1 of prod at store1.internal, 10.0.0.7, fd00::7; until 2"),
        "{line}"
    );
    assert!(line.ends_with("Z, 364 days left"), "{line}");
    // ca.pem and cert.pem of the store, and all of the CA.
    assert_eq!(text.lines().count(), 2 + 5, "{text}");
    assert!(text.contains("/ca.pem: CA of prod; until 2"), "{text}");
}

#[test]
fn keys_and_directories_are_private_and_the_ca_key_is_not_copied() {
    let ca = TestAuthority::create();
    let client = ca.issue("client", "billing", &[]);
    for dir in [&ca.path(), &client] {
        assert_eq!(mode_of(dir), 0o700, "{}", dir.display());
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                assert_eq!(mode_of(&path), 0o600, "{}", path.display());
            }
        }
    }
    let mut files: Vec<_> = fs::read_dir(&client)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    files.sort();
    assert_eq!(files, ["ca.pem", "cert.pem", "key.pem"]);
    let ca_key = fs::read_to_string(ca.path().join("ca-key.pem")).unwrap();
    assert_ne!(fs::read_to_string(client.join("key.pem")).unwrap(), ca_key);
    let output = run_ok(&[
        "cert",
        "init",
        "--domain=d",
        "--dir",
        &format!("{}2", ca.dir()),
    ]);
    assert!(output.contains("keep      ca-key.pem offline"), "{output}");
}

#[test]
fn nothing_is_overwritten() {
    let ca = TestAuthority::create();
    let dir = ca.dir();
    let key = fs::read(ca.path().join("ca-key.pem")).unwrap();
    assert_bad_input(
        &["cert", "init", "--domain=prod", "--dir", &dir],
        &[&dir, "never overwritten", "choose another name"],
    );
    assert_eq!(fs::read(ca.path().join("ca-key.pem")).unwrap(), key);

    let client = ca.issue("client", "billing", &[]);
    let key = fs::read(client.join("key.pem")).unwrap();
    let again = ["cert", "client", "--name=billing", "--dir", &dir];
    assert_bad_input(&again, &["client-billing: it exists", "move"]);
    assert_eq!(fs::read(client.join("key.pem")).unwrap(), key);
    // As the text says, the same name is made again for a renewal.
    fs::rename(&client, ca.path().join("old")).unwrap();
    run_ok(&again);
    symlink("nowhere", ca.path().join("client-x")).unwrap();
    let through_link = ["cert", "client", "--name=x", "--dir", &dir];
    assert_bad_input(&through_link, &["client-x: it is no directory"]);
}

#[test]
fn bad_domain_name_or_host_is_rejected_in_words() {
    let ca = TestAuthority::create();
    let dir = ca.dir();
    for domain in ["Prod", "", "a/b", "pr od", "seqsvr://prod", "-a"] {
        let domain = format!("--domain={domain}");
        let args = ["cert", "init", "--dir", "/nowhere/pki", &domain];
        assert_bad_input(&args, &["domain", "use 1 to 63 of a-z 0-9 -"]);
    }
    for name in ["", "..", "../x", "a/b", "ä", ".hidden", &"n".repeat(65)] {
        let name = format!("--name={name}");
        let args = ["cert", "client", "--dir", &dir, &name];
        assert_bad_input(&args, &["--name: client name", "use 1 to 64"]);
    }
    let zero = ["cert", "store", "--dir", &dir, "--name=01", "--host=a"];
    assert_bad_input(&zero, &["--name: store name \"01\"", "leading zeros"]);
    for host in [
        "",
        "a:7800",
        "*.internal",
        "http://a",
        "0.0.0.0",
        "a b",
        "1.2.3",
    ] {
        let host = format!("--host={host}");
        let args = ["cert", "alloc", "--dir", &dir, "--name=a1", &host];
        assert_bad_input(&args, &["--host <HOST>"]);
    }
    let without_host = ["cert", "store", "--dir", &dir, "--name=s1"];
    assert_bad_input(&without_host, &["--host <HOST>", "required"]);
    let hosts: Vec<String> = (0..65).map(|n| format!("--host=h{n}")).collect();
    let mut with_many = vec!["cert", "store", "--dir", &dir, "--name=s1"];
    with_many.extend(hosts.iter().map(String::as_str));
    assert_bad_input(&with_many, &["65 times --host", "at most 64"]);
    let with_host = ["cert", "admin", "--dir", &dir, "--name=a", "--host=a"];
    assert_bad_input(&with_host, &["unexpected argument '--host'"]);
    for days in ["0", "36501", "-1", "x"] {
        let days = format!("--days={days}");
        let args = ["cert", "client", "--dir", &dir, "--name=c", &days];
        assert_bad_input(&args, &["--days"]);
    }
    // Nothing was made.
    assert_eq!(fs::read_dir(ca.path()).unwrap().count(), 2);
}

#[test]
fn directory_without_a_usable_ca_is_rejected_in_words() {
    let parent = tempfile::tempdir().unwrap();
    let make = |dir: &str, words: &[&str]| {
        assert_bad_input(&["cert", "client", "--name=c", "--dir", dir], words);
    };
    let missing = parent.path().join("missing");
    make(
        text_of(&missing),
        &["missing has no ca.pem", "seqsvr cert init"],
    );
    make(
        text_of(parent.path()),
        &["has no ca.pem", "seqsvr cert init"],
    );

    let [ca, other] = [(); 2].map(|()| TestAuthority::create());
    let [ca_file, key_file] = ["ca.pem", "ca-key.pem"].map(|name| ca.path().join(name));
    fs::set_permissions(&key_file, Permissions::from_mode(0o640)).unwrap();
    make(&ca.dir(), &["ca-key.pem", "mode 0640", "chmod 600"]);
    fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(ca.path(), Permissions::from_mode(0o770)).unwrap();
    make(&ca.dir(), &["mode 0770", "chmod 700"]);
    fs::set_permissions(ca.path(), Permissions::from_mode(0o700)).unwrap();

    let own = [fs::read(&ca_file).unwrap(), fs::read(&key_file).unwrap()];
    fs::copy(other.path().join("ca-key.pem"), &key_file).unwrap();
    make(
        &ca.dir(),
        &["is not the key of a certificate in", "restore both"],
    );
    fs::write(&key_file, "no key").unwrap();
    make(
        &ca.dir(),
        &["ca-key.pem: it has no key of a CA", "restore it"],
    );
    fs::write(&key_file, &own[1]).unwrap();
    fs::write(&ca_file, "no certificate").unwrap();
    make(&ca.dir(), &["ca.pem: it has no certificate in PEM"]);
    fs::write(&ca_file, &own[0][..200]).unwrap();
    make(&ca.dir(), &["ca.pem"]);
    fs::remove_file(&key_file).unwrap();
    make(&ca.dir(), &["has no ca-key.pem", "copy the file here"]);
    // With all of it back the directory is as before, also beside another CA.
    fs::write(&key_file, &own[1]).unwrap();
    fs::set_permissions(&key_file, Permissions::from_mode(0o600)).unwrap();
    let both = [
        fs::read(other.path().join("ca.pem")).unwrap(),
        own[0].clone(),
    ];
    fs::write(&ca_file, both.concat()).unwrap();
    let client = ca.issue("client", "c", &[]);
    assert_eq!(fs::read(client.join("ca.pem")).unwrap(), both.concat());

    // The certificate of a client, with its key, is no CA.
    fs::copy(client.join("cert.pem"), &ca_file).unwrap();
    fs::copy(client.join("key.pem"), &key_file).unwrap();
    make(&ca.dir(), &["it is no CA of a domain", "seqsvr cert init"]);
}

#[test]
fn directory_that_cannot_be_written_is_named() {
    let parent = tempfile::tempdir().unwrap();
    let below_file = parent.path().join("file/pki");
    fs::write(parent.path().join("file"), "").unwrap();
    let missing = parent.path().join("missing/pki");
    for dir in [below_file, missing] {
        let args = ["cert", "init", "--domain=prod", "--dir", text_of(&dir)];
        let parent = dir.parent().unwrap().display().to_string();
        assert_bad_input(&args, &[&parent]);
    }
    let mut nameless = clean_command(&["cert", "init", "--domain=prod", "--dir=."]);
    let empty = tempfile::tempdir().unwrap();
    nameless.current_dir(empty.path());
    let error = expect_failure(nameless, 2);
    assert!(
        error.contains(".: it has no name; name a new directory"),
        "{error}"
    );
}

#[test]
fn show_rejects_what_is_no_certificate() {
    let ca = TestAuthority::create();
    let client = ca.issue("client", "c", &[]);
    let parent = tempfile::tempdir().unwrap();
    let key = client.join("key.pem");
    for (path, words) in [
        (&*key, "key.pem: it has no certificate in PEM"),
        (parent.path(), "it has no ca.pem and no cert.pem"),
        (Path::new("/no/such"), "/no/such: cannot be read"),
    ] {
        assert_bad_input(&["cert", "show", text_of(path)], &[words]);
    }
    let damaged = parent.path().join("cert.pem");
    let pem = fs::read_to_string(client.join("cert.pem")).unwrap();
    // The first byte of the DER becomes another one.
    fs::write(&damaged, pem.replacen("\nM", "\nN", 1)).unwrap();
    let words = ["cert.pem: certificate 1: no certificate in X.509 form"];
    assert_bad_input(&["cert", "show", text_of(&damaged)], &words);
}
