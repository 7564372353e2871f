//! Damage to the data directory of a stopped store, and the text that the store must log.
//!
//! Format: a frame is `version u8 | length u32 | crc32 of those five bytes | body | crc32`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use seqsvr_core::state::FORMAT_LEVEL_MAX;

/// A stopped store's directory, and early copies.
pub(super) struct DamagePoint<'a> {
    /// The directory to damage.
    pub(super) data: PathBuf,
    /// An early copy of it.
    pub(super) old: &'a Path,
    /// A copy of another store's directory.
    pub(super) other_store: &'a Path,
}

/// One kind of damage.
pub(super) struct DamageCase {
    pub(super) name: &'static str,
    /// Damages the directory and returns the path that the store must name.
    pub(super) damage: fn(&DamagePoint) -> PathBuf,
    /// Other parts of the text.
    pub(super) expected_texts: &'static [&'static str],
}

/// The first version above the newest format level, as the expected texts name it.
const NEWER_VERSION: u8 = 4;
const _: () = assert!(NEWER_VERSION as u32 == FORMAT_LEVEL_MAX + 1);

const RESTORE_ADVICE: &str = "Nothing was changed. Restore";

/// Damage to authoritative files, which the store refuses.
pub(super) const AUTHORITATIVE_DAMAGE: &[DamageCase] = &[
    DamageCase {
        name: "identity, a bit",
        damage: |p| flip_bit(&p.data.join("identity"), 2),
        expected_texts: &["is damaged", RESTORE_ADVICE],
    },
    DamageCase {
        name: "identity, cut short",
        damage: |p| cut_end(&p.data.join("identity"), 2),
        expected_texts: &["is damaged (cut short)", RESTORE_ADVICE],
    },
    DamageCase {
        name: "identity, missing",
        damage: |p| {
            let path = p.data.join("identity");
            fs::remove_file(&path).unwrap();
            path
        },
        expected_texts: &["it is missing", RESTORE_ADVICE],
    },
    DamageCase {
        name: "identity of another store",
        damage: |p| {
            swap_with_other_store(p, "identity");
            p.data.clone()
        },
        expected_texts: &["belongs to node", "check --id and --data-dir"],
    },
    DamageCase {
        name: "identity, newer format",
        damage: |p| write_newer_version(&p.data.join("identity")),
        expected_texts: &["format version 4 is unknown to this build", "newer build"],
    },
    DamageCase {
        name: "log, a bit",
        damage: |p| {
            flip_bit(&newest_log_file(&p.data), 3);
            p.data.join("log")
        },
        expected_texts: &["is damaged", RESTORE_ADVICE],
    },
    DamageCase {
        name: "log, cut short",
        damage: |p| {
            let path = newest_log_file(&p.data);
            let newer = log_files(&p.data).into_iter().filter(|f| *f > path);
            newer.for_each(|f| fs::remove_file(f).unwrap());
            cut_end(&path, 3);
            p.data.join("log")
        },
        expected_texts: &["is an older copy or lost its end", "Restore the newer log"],
    },
    DamageCase {
        name: "log, missing",
        damage: |p| {
            let path = p.data.join("log");
            fs::remove_dir_all(&path).unwrap();
            path
        },
        expected_texts: &["its files are missing", RESTORE_ADVICE],
    },
    DamageCase {
        name: "log of another store",
        damage: |p| swap_with_other_store(p, "log"),
        expected_texts: &["it was written by node", RESTORE_ADVICE],
    },
    DamageCase {
        name: "log, an older copy",
        damage: |p| {
            let path = p.data.join("log");
            replace_by_copy(&p.old.join("log"), &path);
            path
        },
        expected_texts: &["is an older copy or lost its end", "Restore the newer log"],
    },
    DamageCase {
        name: "log, newer format",
        damage: |p| {
            write_newer_version(&newest_log_file(&p.data));
            p.data.join("log")
        },
        expected_texts: &["format version 4 is unknown to this build", "newer build"],
    },
    DamageCase {
        name: "snapshot that is none",
        damage: |p| {
            let name = "00000000000000000001-00000000000000000009.snapshot";
            let path = p.data.join("snapshots").join(name);
            fs::write(&path, b"not a snapshot, and long enough to be read").unwrap();
            path
        },
        expected_texts: &["it is not a snapshot", RESTORE_ADVICE],
    },
    DamageCase {
        name: "a file in the directory's place",
        damage: |p| {
            fs::remove_dir_all(&p.data).unwrap();
            fs::write(&p.data, b"a file").unwrap();
            p.data.clone()
        },
        expected_texts: &["check --data-dir"],
    },
];

const QUARANTINE_TEXTS: &[&str] = &["it is quarantined and rebuilt"];

/// Damage to rows, which the store quarantines and rebuilds.
pub(super) const ROWS_DAMAGE: &[DamageCase] = &[
    DamageCase {
        name: "rows, overwritten",
        damage: |p| {
            let db = p.data.join("state/db");
            fs::write(&db, vec![0xa5; 64 << 10]).unwrap();
            db
        },
        expected_texts: QUARANTINE_TEXTS,
    },
    DamageCase {
        name: "rows, missing",
        damage: |p| {
            let path = p.data.join("state");
            fs::remove_dir_all(&path).unwrap();
            path
        },
        expected_texts: &["raft started"],
    },
    DamageCase {
        name: "rows of another store",
        damage: |p| swap_with_other_store(p, "state"),
        expected_texts: QUARANTINE_TEXTS,
    },
];

/// Replaces `to` by a copy of `from`. Either may be a file or a directory.
pub(super) fn replace_by_copy(from: &Path, to: &Path) {
    if to.is_dir() {
        fs::remove_dir_all(to).unwrap();
    } else if to.exists() {
        fs::remove_file(to).unwrap();
    }
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.unwrap().success(), "cp {from:?} {to:?}");
    // The disk under it may fail soon.
    let synced = Command::new("sync").arg("-f").arg(to).status();
    assert!(synced.unwrap().success(), "sync {to:?}");
}

/// Returns every file with its content, except the rows, which are rebuilt when in doubt.
pub(super) fn read_tree(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    if path.is_file() {
        return vec![(path.to_owned(), fs::read(path).unwrap())];
    }
    let mut parts: Vec<PathBuf> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    parts.sort();
    parts.retain(|p| !(p.ends_with("state") || p.ends_with("lock") || p.ends_with("LOCK")));
    parts.iter().flat_map(|part| read_tree(part)).collect()
}

/// Returns the files that have changed. A half-written record at the end of a log, which is
/// dropped, and a log file begun after it do not count.
pub(super) fn find_changed_files<'a>(
    before: &'a [(PathBuf, Vec<u8>)],
    after: &Path,
) -> Vec<&'a Path> {
    let after = read_tree(after);
    let kept = |(path, was): &&(PathBuf, Vec<u8>)| {
        let is = after.iter().find(|(p, _)| p == path);
        let wal = path.extension().is_some_and(|e| e == "wal");
        is.is_some_and(|(_, is)| was == is || wal && was.starts_with(is))
    };
    let lost = before.iter().filter(|file| !kept(file));
    lost.map(|(path, _)| path.as_path()).collect()
}

fn swap_with_other_store(place: &DamagePoint, part: &str) -> PathBuf {
    let path = place.data.join(part);
    replace_by_copy(&place.other_store.join(part), &path);
    path
}

fn log_files(data: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data.join("log")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let mut wals: Vec<PathBuf> = files
        .filter(|f| f.extension().is_some_and(|e| e == "wal"))
        .collect();
    wals.sort();
    wals
}

/// Returns the newest log file that has more than its header.
fn newest_log_file(data: &Path) -> PathBuf {
    let long = |f: &PathBuf| fs::metadata(f).unwrap().len() > 8 << 10;
    log_files(data).into_iter().rfind(long).unwrap()
}

/// Flips a bit at one `part`th of a file.
fn flip_bit(path: &Path, part: usize) -> PathBuf {
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.len() / part;
    bytes[at] ^= 4;
    fs::write(path, bytes).unwrap();
    path.to_owned()
}

/// Cuts one `part`th off the end of a file.
fn cut_end(path: &Path, part: usize) -> PathBuf {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..bytes.len() - bytes.len() / part]).unwrap();
    path.to_owned()
}

/// Rewrites the first frame as one of the next format version, with a valid checksum of its head.
fn write_newer_version(path: &Path) -> PathBuf {
    let mut bytes = fs::read(path).unwrap();
    let is_head = |head: &[u8]| crc32(&head[..5]).to_be_bytes() == head[5..9];
    let at = bytes.windows(9).position(is_head).unwrap();
    bytes[at] = NEWER_VERSION;
    let head = crc32(&bytes[at..at + 5]);
    bytes[at + 5..at + 9].copy_from_slice(&head.to_be_bytes());
    fs::write(path, bytes).unwrap();
    path.to_owned()
}

fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| {
        if crc & 1 == 1 {
            crc >> 1 ^ 0xedb8_8320
        } else {
            crc >> 1
        }
    };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), step);
    !bytes.iter().fold(!0, byte)
}
