//! Hidden numbers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{assert_bad_input, run_ok};
use crate::dev::clean_command;

/// Writes a file of this content and mode.
fn write_key(dir: &Path, content: &str, mode: u32) -> String {
    let path = dir.join("key");
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path.display().to_string()
}

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

#[test]
fn a4_hidden_numbers_are_shown_by_their_key_and_name() {
    let dir = tempfile::tempdir().unwrap();
    let key = write_key(dir.path(), KEY, 0o640);
    let hidden = run_ok(&["hide", "0", "1", "2", "--key-file", &key]);
    // By another implementation of SP 800-38G.
    let expected = "7063215893567239464\n16119681565551891690\n13932748194537813704\n";
    assert_eq!(hidden, expected);
    let mut show = vec!["show", "--key-file", &key];
    show.extend(hidden.lines());
    assert_eq!(run_ok(&show), "0\n1\n2\n");
    let js = run_ok(&["hide", "1", "--key-file", &key, "--bits", "53"]);
    assert_eq!(js, "8133422419398806\n");
    let orders = run_ok(&["hide", "1", "--key-file", &key, "--name", "orders"]);
    assert_eq!(orders, "12990771098594590907\n");
}

#[test]
fn a4_open_or_malformed_key_is_bad_input_and_is_not_printed() {
    let dir = tempfile::tempdir().unwrap();
    let open = write_key(dir.path(), KEY, 0o604);
    assert_bad_input(&["hide", "1", "--key-file", &open], &["mode 0604", "chmod"]);
    for (content, word) in [
        ("", "no secret"),
        ("0011\n", "4 bytes, not 64 hexadecimal digits"),
        (&KEY.replace('0', "g"), "64 hexadecimal digits"),
        (&format!("{KEY}{KEY}"), "several lines"),
    ] {
        let key = write_key(dir.path(), content, 0o600);
        let mut show = clean_command(&["show", "1", "--key-file", &key]);
        let output = show.output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(word) && !text.contains("0011"), "{text}");
    }
    let key = write_key(dir.path(), KEY, 0o600);
    let args = [
        "hide",
        "9007199254740992",
        "--bits",
        "53",
        "--key-file",
        &key,
    ];
    assert_bad_input(&args, &["9007199254740991 (2^53 - 1)"]);
    assert_bad_input(&["hide", "1", "--key-file", "/no/such"], &["/no/such"]);
    assert_bad_input(&["hide", "1"], &["--key-file"]);
    assert_bad_input(&["hide", "--key-file", &key, "--", "-1"], &["-1"]);
}
