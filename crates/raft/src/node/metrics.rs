//! Metrics of a node for operators: one list for `status --json` and for Prometheus, and a list for
//! Prometheus alone because it reads the disk.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use rustix::fs::statvfs;
use seqsvr_metrics::{
    Collector, DescriptorEncoder, MetricKind, MetricSample, Registry, encode_samples,
};
use tokio::time::Instant;

use super::{GroupMember, RaftNode};
use crate::node::leadership::RaftRole;

/// Prefix of the names.
const METRIC_PREFIX: &str = "seqsvr_raft";
/// Most files of a data directory that are counted: it has some dozens.
const COUNTED_FILES_MAX: usize = 10_000;
/// Deepest level of nested directories.
const FOLDER_DEPTH_MAX: usize = 4;

impl RaftNode {
    /// Adds all samples of this node.
    pub fn register(&self, registry: &mut Registry) {
        let ours = registry.sub_registry_with_prefix(METRIC_PREFIX);
        ours.register_collector(Box::new(RaftCollector(self.clone())));
    }

    /// Returns all samples except those of the disk.
    pub fn metrics(&self) -> Vec<MetricSample> {
        let (gauge, counter) = (MetricSample::gauge, MetricSample::counter);
        let now = self.counters();
        let leadership = self.leadership().borrow().clone();
        let members = self.members();
        let voters = members.iter().filter(|m| m.is_voter).count() as u64;
        let mut all = vec![
            counter("log_syncs", "fdatasyncs of the log", now.log_syncs),
            MetricSample {
                kind: MetricKind::CounterMicros,
                ..counter(
                    "log_sync_us",
                    "Total time of all fdatasyncs of the log",
                    now.log_sync_us,
                )
            },
            gauge_in_ms(
                "log_sync_max_ms",
                "Longest fdatasync of the log",
                Duration::from_micros(now.log_sync_max_us),
            ),
            counter("log_bytes", "Bytes written to the log", now.log_bytes),
            counter(
                "entries",
                "Entries appended to the log of this node",
                now.entries,
            ),
            counter("votes_persisted", "Votes persisted", now.votes),
            gauge("term", "Current term; grows with each election", now.term),
            gauge(
                "last_log_index",
                "Index of the last entry in the log",
                now.last_log_index,
            ),
            gauge(
                "committed_index",
                "Index of the last committed entry that this node has learned of",
                now.committed_index,
            ),
            gauge(
                "applied_index",
                "Index of the last entry applied",
                now.applied_index,
            ),
            gauge(
                "is_leader",
                "1 if this node is the leader and has applied an entry of its term",
                leadership.ready_term.is_some().into(),
            ),
            gauge(
                "has_leader",
                "1 if this node is a leader with a quorum, or had recent contact with one",
                self.has_responsive_leader().into(),
            ),
            gauge(
                "voters",
                "Members that vote, in the membership of this node",
                voters,
            ),
            gauge(
                "learners",
                "Members that do not vote",
                members.len() as u64 - voters,
            ),
            gauge(
                "format_level",
                "Format level of the cluster",
                self.with_state(|state| u64::from(state.format_level())),
            ),
            gauge(
                "snapshot_index",
                "Last index in the newest snapshot; 0 without a snapshot",
                now.snapshot_index,
            ),
            gauge(
                "purged_index",
                "Last index purged from the log; 0 before the first purge",
                now.purged_index,
            ),
            counter(
                "snapshots_built",
                "Snapshots built by this node",
                now.snapshots_built,
            ),
            counter(
                "snapshots_installed",
                "Snapshots received from a leader or read at the start",
                now.snapshots_installed,
            ),
        ];
        if leadership.role == RaftRole::Leader {
            all.extend(self.follower_samples(&members, now.last_log_index));
        }
        all
    }

    /// Returns the samples of the other members, at a leader whose log ends with that entry.
    fn follower_samples(&self, members: &[GroupMember], last_log_index: u64) -> Vec<MetricSample> {
        let own = self.identity().node;
        let matched = self.matched_indexes();
        let others = || members.iter().filter(|m| m.id != own);
        let lags = others().map(|m| {
            let lag = last_log_index.saturating_sub(matched.get(&m.id).copied().unwrap_or(0));
            let help = "Entries that a follower is behind the leader";
            MetricSample::gauge("follower_lag_entries", help, lag)
                .with_label("store", m.id.to_string())
        });
        let ages = others().filter_map(|m| {
            let age = self.last_ack_age(m.id)?;
            let help = "Time since the leader last sent a message that the follower acknowledged";
            let sample = gauge_in_ms("follower_last_ack_age_ms", help, age);
            Some(sample.with_label("store", m.id.to_string()))
        });
        lags.chain(ages).collect()
    }

    /// Returns whether there is a leader with a recent sign of life; for a leader, that of its
    /// quorum.
    pub fn has_responsive_leader(&self) -> bool {
        let leadership = self.leadership().borrow().clone();
        let heard = match leadership.role {
            // The only voter has no quorum of others.
            RaftRole::Leader if self.current_members().voters.len() == 1 => Some(Duration::ZERO),
            RaftRole::Leader => self.quorum_age(),
            _ => self.inner.last_leader_contact.lock().map(|at| at.elapsed()),
        };
        // Twice the time after which others are elected.
        leadership.leader.is_some() && heard.is_some_and(|ago| ago < self.inner.confirm_timeout)
    }

    /// Notes a call from a leader.
    pub(crate) fn note_leader_contact(&self) {
        *self.inner.last_leader_contact.lock() = Some(Instant::now());
    }
}

fn gauge_in_ms(name: &'static str, help: &'static str, time: Duration) -> MetricSample {
    MetricSample {
        kind: MetricKind::GaugeMillis,
        ..MetricSample::gauge(name, help, time.as_millis() as u64)
    }
}

/// A node as Prometheus scrapes it.
struct RaftCollector(RaftNode);

impl fmt::Debug for RaftCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scraped").finish()
    }
}

impl Collector for RaftCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let mut all = self.0.metrics();
        all.extend(measure_disk(&self.0.inner.data_dir));
        encode_samples(&all, &mut encoder)?;
        let Some(log) = self.0.inner.log.upgrade() else {
            return Ok(());
        };
        let help = "Time from an append to the log until it was durable";
        log.append_durations
            .encode("log_append_duration_seconds", help, &mut encoder)
    }
}

/// Returns the sizes of the parts of a data directory, and the free space of its file system.
fn measure_disk(root: &Path) -> Vec<MetricSample> {
    // In the order of the samples.
    let parts = ["log", "state", "snapshots", "quarantined", "other"];
    let mut sizes = [0; 5];
    let mut files = 0;
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let part = match entry.file_name().to_str() {
            Some("log") => 0,
            Some("state") => 1,
            Some("snapshots") => 2,
            Some(name) if name.starts_with("state.bad.") => 3,
            _ => 4,
        };
        sizes[part] += file_bytes(&entry.path(), FOLDER_DEPTH_MAX, &mut files);
    }
    let help = "Size of the files in the data directory";
    let sizes_by_part = parts.into_iter().zip(sizes);
    let mut all: Vec<_> = sizes_by_part
        .map(|(part, bytes)| {
            MetricSample::gauge("disk_bytes", help, bytes).with_label("part", part)
        })
        .collect();
    if let Ok(stat) = statvfs(root) {
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let help = "Free space on the file system of the data directory";
        all.push(MetricSample::gauge("disk_free_bytes", help, free));
    }
    all
}

/// Returns the bytes of a file, or of all below a directory. A file that disappears has none.
fn file_bytes(path: &Path, depth: usize, files: &mut usize) -> u64 {
    *files += 1;
    if *files > COUNTED_FILES_MAX {
        return 0;
    }
    let Ok(about) = fs::symlink_metadata(path) else {
        return 0;
    };
    if !about.is_dir() || depth == 0 {
        return about.len();
    }
    let below = fs::read_dir(path).into_iter().flatten().flatten();
    below
        .map(|entry| file_bytes(&entry.path(), depth - 1, files))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_metrics_sum_files_of_each_part() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: usize| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![7; bytes]).unwrap();
        };
        write("log/1.wal", 100);
        write("log/2.wal", 20);
        write("state/blobs/1", 3);
        write("state.bad.1/db", 4_000);
        write("identity", 60);
        let all = measure_disk(dir.path());
        let of = |part: &str| {
            let wanted = Some(("part", part.to_owned().into()));
            all.iter().find(|f| f.label == wanted).unwrap().value
        };
        assert_eq!((of("log"), of("state")), (120, 3));
        assert_eq!((of("quarantined"), of("snapshots")), (4_000, 0));
        assert_eq!(of("other"), 60);
        let free = all.iter().find(|f| f.name == "disk_free_bytes").unwrap();
        assert!(free.value > 0);
    }
}
