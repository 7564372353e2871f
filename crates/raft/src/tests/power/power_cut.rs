//! Power cuts: data acknowledged before the power went off is there after it returned.
//!
//! A child process (this test binary again) appends, votes, truncates, applies, snapshots and
//! purges on an ext4 file system on a loop device, and reports what was acknowledged. The parent
//! stops the child (SIGSTOP first: otherwise a line may be reported that the harness itself cut).
//! It shuts the file system down without flushing its journal, kills the child, mounts again and
//! checks.
//!
//! Needs root; prints loudly that it was skipped otherwise. `SEQSVR_POWER_CUTS` says how many cuts;
//! 10 by default, 60 in a full run.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{FuturesOrdered, StreamExt};
use openraft::StorageHelper;
use openraft::storage::{IOFlushed, RaftLogReader, RaftSnapshotBuilder, RaftStateMachine};
use openraft::type_config::TypeConfigExt;
use rand::RngExt;
use seqsvr_core::ids::ClusterId;

use crate::storage::identity::NodeIdentity;
use crate::tests::disk::{Disk, run, skipped};
use crate::tests::power::model::{ExpectedDisk, workload_entry};
use crate::tests::*;
use crate::types::{TypeConfig, Vote};

const DIR_VARIABLE: &str = "SEQSVR_POWER_CUT_DIR";
const CUTS_VARIABLE: &str = "SEQSVR_POWER_CUTS";
/// Makes the child report entries before they are durable.
const LIE_VARIABLE: &str = "SEQSVR_POWER_CUT_LIE";
fn options(dir: &Path) -> Options {
    let mut options = Options::new(1, "127.0.0.1:1", dir.join("data"));
    options.log_file_bytes = 256 << 10;
    options
}

/// Opens the storage as a node's start does and rebuilds the state as openraft does.
async fn open(dir: &Path) -> Result<Storage, String> {
    let mut storage = open_storage(&options(dir)).map_err(|e| e.to_string())?;
    let mut helper = StorageHelper::new(&mut storage.log, &mut storage.machine).with_id(1);
    let state = helper.get_initial_state().await;
    state.map_err(|e| e.to_string())?;
    if storage.identity.cluster.is_none() {
        let identity = NodeIdentity {
            cluster: Some(ClusterId(1)),
            ..storage.identity
        };
        let stamped = storage.log.set_stamp(identity).await;
        stamped.map_err(|e| e.to_string())?;
        identity
            .store(&storage.directory)
            .map_err(|e| e.to_string())?;
    }
    Ok(storage)
}

fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // One write a line: a line is whole or missing.
    out.write_all(format!("{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// Runs the child: writes until it is killed. Not a test by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(dir) = std::env::var(DIR_VARIABLE) else {
        return;
    };
    let mut storage = open(Path::new(&dir)).await.unwrap();
    let lie = std::env::var(LIE_VARIABLE).is_ok();
    let mut rng = rand::rng();
    let (log, machine) = (&mut storage.log, &mut storage.machine);
    let last = log.get_log_state().await.unwrap().last_log_id;
    let mut term = log
        .read_vote()
        .await
        .unwrap()
        .map_or(0, |v| v.leader_id.term);
    let mut next = last.map_or(0, |id| id.index + 1);
    let mut acked = next;
    let mut applied = machine
        .applied_state()
        .await
        .unwrap()
        .0
        .map_or(0, |id| id.index + 1);
    let mut snapshot_at = applied;
    let mut flight: FuturesOrdered<BoxFuture<'static, (u64, u64)>> = FuturesOrdered::new();
    print_line("begin");
    // A new term before anything is written, as after an election.
    let mut vote = true;
    loop {
        if vote {
            term += 1;
            log.save_vote(&Vote::new_committed(term, 1)).await.unwrap();
            print_line(&format!("voted {term}"));
        }
        for _ in 0..rng.random_range(1..6) {
            let count = rng.random_range(1..6);
            let (tx, rx) = TypeConfig::oneshot();
            let entries: Vec<Entry> = (next..next + count)
                .map(|i| workload_entry(term, i))
                .collect();
            next += count;
            log.append(entries, IOFlushed::signal(tx)).await.unwrap();
            let (upto, of) = (next, term);
            flight.push_back(Box::pin(async move {
                if !lie {
                    rx.await.unwrap().unwrap();
                }
                (upto, of)
            }));
        }
        while flight.len() > 3 || (!flight.is_empty() && rng.random_range(0..2) == 0) {
            let (upto, of) = flight.next().await.unwrap();
            print_line(&format!("acked {acked} {upto} {of}"));
            acked = upto;
        }
        // As on followers of a deposed leader: a tail that was never committed is truncated.
        vote = rng.random_range(0..25) == 0;
        if vote && acked > applied {
            while let Some((upto, of)) = flight.next().await {
                print_line(&format!("acked {acked} {upto} {of}"));
                acked = upto;
            }
            let keep = rng.random_range(applied..=acked);
            print_line(&format!("cutting {keep}"));
            let upto = match keep {
                0 => None,
                keep => Some(log.log_id_at(keep - 1).unwrap().unwrap()),
            };
            log.truncate_after(upto).await.unwrap();
            (next, acked) = (keep, keep);
        }
        let commit = rng.random_range(applied..=acked);
        if commit > applied {
            let entries = log.try_get_log_entries(applied..commit).await.unwrap();
            assert_eq!(entries.len() as u64, commit - applied);
            let committed = entries.last().unwrap().log_id;
            log.save_committed(Some(committed)).await.unwrap();
            let items = entries.into_iter().map(|e| Ok((e, None)));
            machine.apply(futures::stream::iter(items)).await.unwrap();
            applied = commit;
        }
        if applied > snapshot_at + 150 {
            let mut builder = machine.get_snapshot_builder().await;
            let snapshot = builder.build_snapshot().await.unwrap();
            let id = snapshot.meta.last_log_id.unwrap();
            let upto = log.log_id_at(id.index - rng.random_range(0..40)).unwrap();
            print_line("purging");
            log.purge(upto.unwrap()).await.unwrap();
            snapshot_at = applied;
        }
    }
}

/// A child that is killed when this is dropped, so that it does not outlive a failed test.
struct ChurningChild(Child);

impl ChurningChild {
    fn start(disk: &Disk, lie: bool) -> ChurningChild {
        let mut child = Process::new(std::env::current_exe().unwrap());
        if lie {
            child.env(LIE_VARIABLE, "1");
        }
        let child = child
            .args([
                "tests::power::power_cut::child",
                "--exact",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(DIR_VARIABLE, disk.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        ChurningChild(child)
    }

    fn signal(&self, name: &str) {
        run("kill", &["-s", name, &self.0.id().to_string()]).unwrap();
    }
}

impl Drop for ChurningChild {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Cuts the power this many times; the first loss found is the error.
async fn cut_and_check(cuts: u64, lie: bool) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let mut disk = Disk::make(dir.path())?;
    let mut model = ExpectedDisk::default();
    let mut rebuilt = BTreeSet::new();
    for cut in 1..=cuts {
        churn_until_cut(&mut disk, &mut model, lie).await?;
        let acked = model.acked;
        let kept = async {
            let mut storage = open(&disk.mount).await?;
            model.check(&mut storage).await
        };
        if let Err(what) = kept.await {
            return Err(format!(
                "cut {cut} of {cuts}, {acked} entries acknowledged: {what}"
            ));
        }
        for path in crate::storage::data_dir::list_files(&disk.mount.join("data")).unwrap() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.starts_with("state.bad.") {
                rebuilt.insert(name);
            }
        }
    }
    assert!(model.acked > 0 && model.votes > 0 && model.snapshots > 0);
    let line = format!(
        "{cuts} power cuts: {} entries, {} votes and {} snapshots acknowledged, none lost; stored state rebuilt {} times\n",
        model.acked,
        model.votes,
        model.snapshots,
        rebuilt.len()
    );
    // Written past the test harness's capture: it is the result of the run.
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    Ok(())
}

/// Lets a child work for a moment, then cuts the power and restores it.
async fn churn_until_cut(
    disk: &mut Disk,
    model: &mut ExpectedDisk,
    lie: bool,
) -> Result<(), String> {
    let mut churn = ChurningChild::start(disk, lie);
    let lines = BufReader::new(churn.0.stdout.take().unwrap()).lines();
    let (tx, mut rx) = tokio::sync::mpsc::unbounded_channel();
    let listener = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if tx.send(line).is_err() {
                break;
            }
        }
    });
    let started = Instant::now();
    let mut end = None;
    while end.is_none_or(|end| Instant::now() < end) {
        match tokio::time::timeout(Duration::from_millis(5), rx.recv()).await {
            Ok(Some(line)) => {
                // libtest prints the test's name before our first line.
                if line.ends_with("begin") {
                    let more = rand::rng().random_range(50..700);
                    end = Some(Instant::now() + Duration::from_millis(more));
                }
                model.record_line(&line);
            }
            Ok(None) => {
                let mut text = String::new();
                let mut stderr = churn.0.stderr.take().unwrap();
                std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
                return Err(format!("the child ended by itself: {text}"));
            }
            Err(_) => assert!(started.elapsed() < Duration::from_secs(60), "no start"),
        }
    }
    churn.signal("STOP");
    disk.cut()?;
    drop(churn);
    listener.join().unwrap();
    while let Ok(line) = rx.try_recv() {
        model.record_line(&line);
    }
    disk.unmount()?;
    disk.mount()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_loses_nothing_acknowledged() {
    let cuts = std::env::var(CUTS_VARIABLE).map_or(10, |n| n.parse().expect(CUTS_VARIABLE));
    if !skipped() {
        cut_and_check(cuts, false).await.unwrap();
    }
}

/// The test detects such losses: entries reported before they are durable are found missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn power_cut_test_detects_acknowledgement_before_sync() {
    if !skipped() {
        // Ends with the first cut that detects it, mostly among the first few.
        let caught = cut_and_check(200, true).await.unwrap_err();
        assert!(caught.contains("acknowledged up to"), "{caught}");
    }
}

/// A disk that fails in the middle of work stops the node, with the reason; no call hangs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_disk_stops_the_node() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::make(dir.path()).unwrap();
    let (node, member) = open_node(&disk).await;
    let made = node
        .create_cluster(vec![member], ClusterId(1), 3_000, 16)
        .await;
    made.unwrap();
    let batch = || match workload_entry(1, 1).payload {
        EntryPayload::Normal(p) => Batch::clone(&p.0),
        _ => unreachable!("it is a batch"),
    };
    node.propose(batch()).await.unwrap();
    disk.cut().unwrap();
    let limit = Duration::from_secs(20);
    let refused = tokio::time::timeout(limit, node.propose(batch())).await;
    let refused = refused.unwrap().unwrap_err();
    assert!(
        matches!(refused, crate::ProposeError::Stopped(_)),
        "{refused}"
    );
    assert_stops(&node).await;
    node.shutdown().await;
}

/// As [`failing_disk_stops_the_node`], before the node belongs to a cluster.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_disk_during_init_stops_the_node() {
    if skipped() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let disk = Disk::make(dir.path()).unwrap();
    let (node, member) = open_node(&disk).await;
    disk.cut().unwrap();
    let refused = node
        .create_cluster(vec![member], ClusterId(1), 3_000, 16)
        .await;
    assert!(
        matches!(refused, Err(crate::Error::Io { .. })),
        "{refused:?}"
    );
    assert_stops(&node).await;
    node.shutdown().await;
}

/// Starts a node of its own on this disk; returns it with the member that makes a cluster of it.
async fn open_node(disk: &Disk) -> (crate::RaftNode, crate::GroupMember) {
    let node = crate::RaftNode::open(options(&disk.mount), Arc::new(seqsvr_net::TcpTransport));
    let node = node.await.unwrap();
    let identity = node.identity();
    let member = crate::GroupMember {
        id: identity.node,
        address: String::from("127.0.0.1:1"),
        incarnation: identity.incarnation,
        is_voter: true,
    };
    (node, member)
}

/// Waits until the node has stopped by itself, with a reason.
async fn assert_stops(node: &crate::RaftNode) {
    let limit = Duration::from_secs(20);
    let mut failed = node.watch_failure();
    let reason = tokio::time::timeout(limit, failed.wait_for(Option::is_some)).await;
    let reason = reason.unwrap().unwrap().clone().unwrap();
    assert!(reason.contains("error"), "{reason}");
    assert_eq!(node.leadership().borrow().role, crate::RaftRole::Stopped);
}
