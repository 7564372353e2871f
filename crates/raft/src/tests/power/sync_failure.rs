//! A sync that fails on a disk that then loses the pages, and a restart in the same boot.
//!
//! The disk is real: an ext4 file system on a loop device whose image lies on a tmpfs without free
//! space. The image has the journal's blocks and the data written before, so metadata is stored.
//! The first write of a new block fails, `fdatasync` returns the error, and the kernel marks the
//! page clean and keeps its content. A second `fdatasync` succeeds.
//!
//! Needs root; prints loudly that it was skipped otherwise.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use openraft::storage::{IOFlushed, RaftLogReader};
use openraft::type_config::TypeConfigExt;
use seqsvr_core::ids::ClusterId;

use crate::storage::identity::NodeIdentity;
use crate::tests::disk::{Disk, run, skipped};
use crate::tests::power::model::workload_entry;
use crate::tests::*;
use crate::types::{TypeConfig, Vote};

const BLOCK: usize = 4096;

/// A file system whose new data blocks can be made to fail, like a disk that has no sectors left to
/// remap to.
struct FailingDisk {
    disk: Option<Disk>,
    /// The tmpfs that holds the image.
    backing: PathBuf,
}

impl FailingDisk {
    fn make(dir: &Path) -> Result<FailingDisk, String> {
        let backing = dir.join("backing");
        std::fs::create_dir(&backing).map_err(|e| e.to_string())?;
        let tmpfs = ["-t", "tmpfs", "-o", "size=40M", "tmpfs"];
        run(
            "mount",
            &[&tmpfs[..], &[backing.to_str().unwrap()]].concat(),
        )?;
        let mut made = FailingDisk {
            disk: None,
            backing,
        };
        let image = made.backing.join("disk.img");
        let name = image.to_str().unwrap();
        run("truncate", &["-s", "32M", name])?;
        let format = "-q -F -b 4096 -m 0 -J size=4 -E lazy_itable_init=0,lazy_journal_init=0";
        let format: Vec<&str> = format.split(' ').chain([name]).collect();
        run("mkfs.ext4", &format)?;
        // A file of zeros is sparse. The journal must not be sparse, or metadata would fail as
        // well.
        let blocks = run("debugfs", &["-R", "blocks <8>", name])?;
        let file = File::options().read(true).write(true).open(&image);
        let file = file.map_err(|e| e.to_string())?;
        for block in blocks.split_whitespace() {
            let block: u64 = block.parse().map_err(|_| format!("block {block}"))?;
            let mut bytes = [0; BLOCK];
            let at = block * BLOCK as u64;
            let moved = file
                .read_exact_at(&mut bytes, at)
                .and_then(|()| file.write_all_at(&bytes, at));
            moved.map_err(|e| e.to_string())?;
        }
        made.disk = Some(Disk::of_image(name, dir.join("mount"))?);
        Ok(made)
    }

    fn disk(&mut self) -> &mut Disk {
        self.disk.as_mut().unwrap()
    }

    fn ballast(&self) -> PathBuf {
        self.backing.join("ballast")
    }

    /// Makes each write of a new block fail, after the next `spare` ones.
    fn fail_new_blocks(&self, spare: u64) {
        let mut file = File::create(self.ballast()).unwrap();
        while file.write_all(&[7; BLOCK]).is_ok() {}
        let full = file.metadata().unwrap().len();
        file.set_len(full - spare * BLOCK as u64).unwrap();
    }

    /// Stores new blocks again.
    fn recover(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    /// Cuts the power and restores it.
    fn cycle_power(&mut self) {
        self.disk().cut().unwrap();
        self.disk().again().unwrap();
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        drop(self.disk.take());
        let _ = run("umount", &["-l", self.backing.to_str().unwrap()]);
    }
}

/// Appends one entry and waits until it is durable.
pub(crate) async fn append_durably(log: &mut LogStore, index: u64) -> Result<(), String> {
    append_entry_durably(log, workload_entry(1, index)).await
}

pub(crate) async fn append_entry_durably(log: &mut LogStore, entry: Entry) -> Result<(), String> {
    let (tx, rx) = TypeConfig::oneshot();
    let queued = log.append([entry], IOFlushed::signal(tx)).await;
    queued.map_err(|e| e.to_string())?;
    let flushed = rx.await.map_err(|e| e.to_string())?;
    flushed.map_err(|e| e.to_string())
}

/// Returns a log that has acknowledged `count` entries of a member of a cluster.
pub(crate) async fn open_member_storage(options: &Options, count: u64) -> Storage {
    let mut storage = open_storage(options).unwrap();
    let identity = NodeIdentity {
        cluster: Some(ClusterId(1)),
        ..storage.identity
    };
    storage.log.set_stamp(identity).await.unwrap();
    identity.store(&storage.directory).unwrap();
    storage.log.save_vote(&Vote::new(1, 1)).await.unwrap();
    for index in 0..count {
        append_durably(&mut storage.log, index).await.unwrap();
    }
    storage
}

pub(crate) async fn read_entries(storage: &mut Storage) -> Vec<Entry> {
    storage.log.try_get_log_entries(..).await.unwrap()
}

/// Appends until a sync fails, then starts again in the same boot, then cuts the power. Entries
/// that the restarted node counts as durable must be there: it has reported them to its leader.
async fn fail_restart_and_cut(file_bytes: usize, spare: u64) {
    let dir = tempfile::tempdir().unwrap();
    let mut failing = FailingDisk::make(dir.path()).unwrap();
    let mut options = Options::new(1, "127.0.0.1:1", failing.disk().mount.join("data"));
    options.log_file_bytes = file_bytes;
    let mut storage = open_member_storage(&options, 20).await;
    failing.fail_new_blocks(spare);
    let mut acknowledged = 20;
    let failure = loop {
        match append_durably(&mut storage.log, acknowledged).await {
            Ok(()) => acknowledged += 1,
            Err(failure) => break failure,
        }
        assert!(acknowledged < 1_000, "the disk does not fail");
    };
    println!("entry {acknowledged} is not acknowledged: {failure}");
    drop(storage);
    failing.recover();

    let mut storage = open_storage(&options).unwrap();
    let believed = read_entries(&mut storage).await;
    let durable = storage.log.durable_end();
    let durable = durable.load(std::sync::atomic::Ordering::Acquire);
    assert_eq!(believed.len() as u64, durable);
    assert!(durable >= acknowledged, "{durable} of {acknowledged} left");
    drop(storage);

    failing.cycle_power();
    let kept = match open_storage(&options) {
        Ok(mut storage) => read_entries(&mut storage).await,
        Err(e) => panic!("the restart counted on what was not on the disk: {e}"),
    };
    assert_eq!(kept.len(), believed.len(), "counted, but not on the disk");
    assert_eq!(kept, believed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_failed_sync_are_durable_before_restart_counts_them() {
    if !skipped() {
        fail_restart_and_cut(4 << 20, 0).await;
    }
}

/// A log file holds less than two blocks, so the failure meets the end of one file, the first
/// record of the next, and the records behind it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_failed_sync_at_log_rotation_are_durable_before_restart_counts_them() {
    if skipped() {
        return;
    }
    for spare in 0..5 {
        fail_restart_and_cut(6_000, spare).await;
    }
}
