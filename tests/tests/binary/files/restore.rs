//! `seqsvr restore` that ends in the middle: no store starts on what it leaves.
//!
//! A preloaded library ends the command at its n-th change of a file or directory: it kills the
//! process, or cuts the power of the disk first. A test takes each n until the command succeeds.
//! Needs a C compiler, and root for the disks; says so otherwise.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::dev::{DevServer, clean_command, expect_exit_code};
use crate::disk::{Disk, run, skipped};

/// Most changes that a restore of a small backup makes.
const STEPS_MAX: usize = 300;
const LIBRARY_SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
static int steps;
static void step(void) {
  const char *last = getenv("SEQSVR_LAST_STEP"), *disk = getenv("SEQSVR_CUT_DISK");
  if (__atomic_add_fetch(&steps, 1, __ATOMIC_SEQ_CST) != atoi(last)) return;
  if (disk) {
    unsigned without_journal = 2;
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open64");
    if (ioctl(real(disk, O_RDONLY), 0x8004587d, &without_journal) != 0) abort();
  }
  kill(getpid(), SIGKILL);
}
static void step_of(int fd) {
  struct stat about;
  if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) step();
}
#define NEXT(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
int open64(const char *path, int flags, ...) {
  va_list rest; va_start(rest, flags); mode_t mode = va_arg(rest, mode_t); va_end(rest);
  NEXT(open64); if (flags & O_CREAT) step(); return real(path, flags, mode);
}
ssize_t write(int fd, const void *b, size_t n) { NEXT(write); step_of(fd); return real(fd, b, n); }
ssize_t writev(int fd, const struct iovec *b, int n) {
  NEXT(writev); step_of(fd); return real(fd, b, n);
}
ssize_t pwrite64(int fd, const void *b, size_t n, off64_t at) {
  NEXT(pwrite64); step_of(fd); return real(fd, b, n, at);
}
int ftruncate64(int fd, off64_t n) { NEXT(ftruncate64); step_of(fd); return real(fd, n); }
int mkdir(const char *path, mode_t mode) { NEXT(mkdir); step(); return real(path, mode); }
int rename(const char *from, const char *to) { NEXT(rename); step(); return real(from, to); }
int unlink(const char *path) { NEXT(unlink); step(); return real(path); }
int fsync(int fd) { NEXT(fsync); step(); return real(fd); }
int fdatasync(int fd) { NEXT(fdatasync); step(); return real(fd); }
"#;

/// What a store does with a directory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    /// There is nothing, as before the restore.
    Untouched,
    /// It ends, and says that a restore was interrupted.
    Rejected,
    /// It runs, in the cluster of the restore.
    Restored,
}

/// Runs a store on the directory until it shows its cluster or ends.
fn start_store(dir: &Path) -> Outcome {
    let is_empty = |mut entries: fs::ReadDir| entries.next().is_none();
    if fs::read_dir(dir).map_or(true, is_empty) {
        return Outcome::Untouched;
    }
    let mut command = clean_command(&["store", "--id", "1", "--listen", "127.0.0.1:0"]);
    command.arg("--data-dir").arg(dir);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let lines = out.lines().map_while(Result::ok);
    let cluster = lines
        .map(|l| l.trim().to_owned())
        .find(|l| l.starts_with("cluster"));
    let _ = child.kill();
    let output = child.wait_with_output().unwrap();
    match cluster {
        Some(line) => {
            assert!(!line.contains("none yet"), "it starts empty: {line}");
            Outcome::Restored
        }
        None => {
            let errors = expect_exit_code(&output, 1);
            for words in [
                &format!("data directory {} is incomplete", dir.display()),
                "delete everything in it, then run `seqsvr restore` again",
            ] {
                assert!(errors.contains(words), "{errors}");
            }
            Outcome::Rejected
        }
    }
}

fn make_backup(dir: &Path) -> PathBuf {
    let dev = DevServer::start();
    dev.run_client_ok(&["next", "42"]);
    let file = dir.join("backup");
    dev.run_client_ok(&["backup", file.to_str().unwrap()]);
    file
}

/// Returns a restore of `backup` into `data`, which is relative to `dir` or absolute.
fn restore_command(backup: &Path, dir: &Path, data: &Path) -> Command {
    restore_command_at("127.0.0.1:7801", backup, dir, data)
}

/// Returns [`restore_command`] for a store that listens on this address.
fn restore_command_at(listen: &str, backup: &Path, dir: &Path, data: &Path) -> Command {
    let mut restore = clean_command(&["restore"]);
    restore
        .arg(backup)
        .current_dir(dir)
        .arg("--data-dir")
        .arg(data);
    restore.args(["--id", "1", "--listen", listen, "--epoch-margin", "1000000"]);
    restore.args(["--max-seq-margin", "1000000", "--start-margin", "1000000"]);
    restore.args(["--ids-from", "2090-01-01"]);
    restore
}

/// Builds the library; says why not otherwise.
fn build_library(dir: &Path) -> Option<PathBuf> {
    let (source, library) = (dir.join("steps.c"), dir.join("steps.so"));
    fs::write(&source, LIBRARY_SOURCE).unwrap();
    let [source, built] = [&source, &library].map(|path| path.to_str().unwrap());
    if let Err(e) = run("cc", &["-shared", "-fPIC", "-o", built, source, "-ldl"]) {
        let line = format!("\n!!! test of interrupted restores skipped: no C compiler: {e} !!!\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
        return None;
    }
    Some(library)
}

/// Interrupts a restore before each of its steps. Returns what a store does with each directory.
fn interrupt_each_step(
    dir: &Path,
    library: &Path,
    backup: &Path,
    mut cut: Option<&mut Disk>,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    for last in 1..STEPS_MAX {
        let data = PathBuf::from(format!("new-{last}/data"));
        let parent = cut
            .as_ref()
            .map_or(dir.to_owned(), |disk| disk.mount.clone());
        let mut restore = restore_command(backup, &parent, &data);
        restore
            .env("LD_PRELOAD", library)
            .env("SEQSVR_LAST_STEP", last.to_string());
        if let Some(disk) = &cut {
            restore.env("SEQSVR_CUT_DISK", &disk.mount);
        }
        let output = restore.output().unwrap();
        if output.status.success() {
            assert_eq!(start_store(&parent.join(&data)), Outcome::Restored);
            return outcomes;
        }
        assert_eq!(output.status.code(), None, "it is killed: {output:?}");
        if let Some(disk) = &mut cut {
            disk.again().unwrap();
        }
        outcomes.push(start_store(&parent.join(data)));
    }
    panic!("a restore has more than {STEPS_MAX} steps");
}

/// Checks that the directories are untouched first, then rejected, then restored.
fn assert_in_order(outcomes: &[Outcome]) {
    let count = |outcome| outcomes.iter().filter(|o| **o == outcome).count();
    let (untouched, rejected) = (count(Outcome::Untouched), count(Outcome::Rejected));
    println!(
        "{} steps: {untouched} untouched, {rejected} rejected",
        outcomes.len()
    );
    let expected = |at| match at {
        at if at < untouched => Outcome::Untouched,
        at if at < untouched + rejected => Outcome::Rejected,
        _ => Outcome::Restored,
    };
    let expected: Vec<Outcome> = (0..outcomes.len()).map(expected).collect();
    assert_eq!(outcomes, expected);
    assert!(
        untouched > 0 && rejected > 20,
        "the library ends it at its steps"
    );
}

/// The membership would name it, and no other server reaches it.
#[test]
fn restore_under_an_unspecified_address_is_rejected_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let backup = make_backup(dir.path());
    let data = dir.path().join("data");
    for listen in ["0.0.0.0:1", "[::]:1", "[::ffff:0.0.0.0]:1", "0:1"] {
        let restore = restore_command_at(listen, &backup, dir.path(), &data);
        let errors = expect_exit_code(&{ restore }.output().unwrap(), 2);
        assert!(errors.contains("set --advertise"), "{listen}: {errors}");
        assert!(!data.exists(), "{listen}");
    }
}

/// Schedule: the process is killed before the snapshot has its name. The directory has no identity
/// and an empty log, as a new one: the store starts empty, and `init` makes a cluster that begins
/// at 1 again.
#[test]
fn store_rejects_directory_of_restore_killed_at_any_step() {
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = build_library(dir.path()) else {
        return;
    };
    let backup = make_backup(dir.path());
    let outcomes = interrupt_each_step(dir.path(), &library, &backup, None);
    assert_in_order(&outcomes);

    // A second restore into such a directory, and a backup of it, are rejected too.
    let last = outcomes
        .iter()
        .rposition(|o| *o == Outcome::Rejected)
        .unwrap();
    let data = dir.path().join(format!("new-{}/data", last + 1));
    let again = restore_command(&backup, dir.path(), &data)
        .output()
        .unwrap();
    let mut salvage = clean_command(&["backup", "salvaged", "--data-dir"]);
    let salvage = salvage.arg(&data).current_dir(dir.path()).output().unwrap();
    for output in [again, salvage] {
        let errors = expect_exit_code(&output, 1);
        assert!(
            errors.contains("a restore into it was interrupted"),
            "{errors}"
        );
    }
}

/// As above, with a power cut: also between the rename of the identity and the sync of its
/// directory.
#[test]
fn store_rejects_directory_of_restore_cut_at_any_step() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(library) = build_library(dir.path()) else {
        return;
    };
    let backup = make_backup(dir.path());
    let mut disk = Disk::make(dir.path()).unwrap();
    let outcomes = interrupt_each_step(dir.path(), &library, &backup, Some(&mut disk));
    assert_in_order(&outcomes);
}

/// A tmpfs, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(dir: PathBuf, kib: usize) -> SmallDisk {
        fs::create_dir(&dir).unwrap();
        let size = format!("size={kib}k");
        run(
            "mount",
            &["-t", "tmpfs", "-o", &size, "tmpfs", dir.to_str().unwrap()],
        )
        .unwrap();
        SmallDisk(dir)
    }

    fn grow(&self) {
        run(
            "mount",
            &["-o", "remount,size=64M", self.0.to_str().unwrap()],
        )
        .unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

/// Schedule: the disk is full. The operator frees space and starts the store, as the text for a
/// node says.
#[test]
fn store_rejects_directory_of_restore_on_full_disk() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let backup = make_backup(dir.path());
    for pages in 1..STEPS_MAX {
        let disk = SmallDisk::mount(dir.path().join(pages.to_string()), pages * 4);
        let data = disk.0.join("data");
        let output = restore_command(&backup, dir.path(), &data)
            .output()
            .unwrap();
        if output.status.success() {
            assert!(pages > 1, "a restore needs more than a page");
            return;
        }
        let errors = expect_exit_code(&output, 1);
        let again = format!(
            "then delete everything in {} and run `seqsvr restore` again",
            data.display()
        );
        for words in [
            "No space left on device",
            "free space on its file system",
            &again,
        ] {
            assert!(errors.contains(words), "{errors}");
        }
        assert!(!errors.contains("start this node again"), "{errors}");
        disk.grow();
        assert_eq!(start_store(&data), Outcome::Rejected, "with {pages} pages");
        fs::remove_dir_all(&data).unwrap();
        let output = restore_command(&backup, dir.path(), &data)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    panic!("a restore of a small backup needs {STEPS_MAX} pages");
}
