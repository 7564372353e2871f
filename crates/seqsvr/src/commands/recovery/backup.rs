//! `seqsvr backup`: writes the state of a running cluster to a file.
//!
//! Invariant: a file under its final name is a complete and durable backup that was read back
//! once. The command writes a temporary file, syncs it, checks it, renames it, and syncs the
//! directory. It never replaces an existing file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use seqsvr_core::id::NamespaceId;
use seqsvr_core::state::restore::Windows;
use seqsvr_store::backup::{self, Backup};

use crate::cli;
use crate::commands::cli_client::CliClient;
use crate::output::exit_code::BadInput;
use crate::output::{log, stdout};

/// Advice for the margins of a restore when the backup has no rates.
pub(super) const UNKNOWN_RATE_ADVICE: &str = "the pace is not known. Take the most numbers a second from your own graphs, or the number of callers times the most that each can take. Multiply it by the seconds from the backup until the last call, and double it.";

pub(crate) async fn run(args: cli::BackupArgs) -> anyhow::Result<()> {
    let file = &args.file;
    reject_existing(file)?;
    let part = create_part_file(file)?;
    let backup = match &args.data_dir {
        Some(dir) => salvage(dir, &part).await,
        None => download(&args.client, &part).await,
    };
    let backup = match backup {
        Ok(backup) => backup,
        Err(error) => {
            // The error is reported. A leftover file would only block the next attempt.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
    };
    reject_existing(file)?;
    fs::rename(&part, file).with_context(|| format!("cannot rename to {}", file.display()))?;
    let dir = file.parent().filter(|p| !p.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    File::open(dir)
        .and_then(|d| d.sync_all())
        .with_context(|| format!("cannot sync directory {}", dir.display()))?;
    let (about, state) = (&backup.about, &backup.state);
    stdout::print_line(format_args!("file      {}", file.display()))?;
    stdout::print_line(format_args!("cluster   {}", about.cluster))?;
    stdout::print_line(format_args!("index     {}", about.index))?;
    stdout::print_line(format_args!("sections  {}", state.sections().count()))?;
    for line in namespace_lines(&backup) {
        stdout::print_line(line)?;
    }
    if !has_rates(&backup) {
        stdout::print_line(format_args!("margins   {UNKNOWN_RATE_ADVICE}"))?;
    }
    Ok(())
}

/// Downloads a backup into the existing file `part`, syncs it, and reads it back.
async fn download(args: &cli::ClientArgs, part: &Path) -> anyhow::Result<Backup> {
    let client = CliClient::connect(args)?;
    let write_error = || format!("cannot write {}", part.display());
    let file = OpenOptions::new().write(true).open(part);
    let mut out = BufWriter::new(file.with_context(write_error)?);
    let mut chunks = client.sdk.admin().backup().await?;
    while let Some(bytes) = chunks.chunk().await? {
        out.write_all(&bytes).with_context(write_error)?;
    }
    let file = out.into_inner().map_err(io::Error::from);
    file.and_then(|f| f.sync_all()).with_context(write_error)?;
    Ok(backup::read(part)?)
}

/// Writes the state of a stopped store's directory into the existing file `part`, and reads it
/// back.
async fn salvage(dir: &Path, part: &Path) -> anyhow::Result<Backup> {
    let scratch = part.with_extension("log");
    let salvaged = seqsvr_store::salvage::read(dir, &scratch).await;
    // The copy of the log is not needed any more.
    let _ = fs::remove_dir_all(&scratch);
    let salvaged = salvaged?;
    let write_error = || format!("cannot write {}", part.display());
    let file = OpenOptions::new().write(true).open(part);
    let mut out = BufWriter::new(file.with_context(write_error)?);
    salvaged.backup.write(&mut out).with_context(write_error)?;
    let file = out.into_inner().map_err(io::Error::from);
    file.and_then(|f| f.sync_all()).with_context(write_error)?;
    log::log_unfiltered(format_args!(
        "WARNING: this backup has the state of one store's directory, not of the cluster.\n\
         The cluster may have acknowledged numbers after log index {} that are not in it, and how fast\n\
         it went is not known. {} of its last log entries are not known to be committed.\n\
         Use it only if a majority of the directories is lost and no fresher backup exists. Stop everything\n\
         of the old cluster, and choose the margins of `seqsvr restore` for all that it can have handed\n\
         out since this store last heard from a leader, at most.",
        salvaged.backup.about.index, salvaged.unconfirmed
    ));
    Ok(backup::read(part)?)
}

fn reject_existing(file: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(file) {
        Ok(_) => Err(BadInput(format!(
            "{} exists: a backup is never overwritten, choose another name",
            file.display()
        ))
        .into()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e).with_context(|| format!("cannot use {}", file.display())),
    }
}

/// Creates an empty file next to the final one, with the process id in its name.
fn create_part_file(file: &Path) -> anyhow::Result<PathBuf> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(name);
    File::create(&part).with_context(|| format!("cannot create {}", part.display()))?;
    Ok(part)
}

/// Returns a line for each namespace: its open windows and its rates.
pub(super) fn namespace_lines(backup: &Backup) -> Vec<String> {
    let windows = backup.state.open_windows();
    let line = |n: &seqsvr_core::namespace::Namespace| {
        let Windows { open, largest } = windows.get(&n.id).copied().unwrap_or_default();
        let name = &n.spec.name;
        let pace = describe_rate(backup, n.id);
        format!("namespace {name}: {open} sections open, largest window {largest} numbers, {pace}")
    };
    backup.state.namespaces().map(line).collect()
}

/// Describes the rate of a namespace while the store measured it.
fn describe_rate(backup: &Backup, id: NamespaceId) -> String {
    if !has_rates(backup) {
        return String::from("the pace is not known");
    }
    let average = average_rate(backup, id);
    let peak = match peak_numbers(backup, id) {
        Some(peak) => format!("at most {peak} in a minute"),
        None => String::from("the peak is unknown"),
    };
    format!("{average:.1} numbers added a second on average, {peak}")
}

/// Returns whether the store that made the backup measured rates. A backup of a data directory
/// has none.
pub(super) fn has_rates(backup: &Backup) -> bool {
    backup.about.seen.watched > 0
}

/// Returns the average numbers a second that were added in a namespace while the store measured.
/// It is no upper bound.
fn average_rate(backup: &Backup, id: NamespaceId) -> f64 {
    let usage = &backup.about.seen;
    numbers_of(&usage.added, id) as f64 / usage.watched as f64
}

/// Returns the numbers that were added in a namespace in its busiest minute; None if the store
/// measured nothing, or if an older build made the backup.
pub(super) fn peak_numbers(backup: &Backup, id: NamespaceId) -> Option<u64> {
    let peak = &backup.about.seen.peak;
    (!peak.is_empty()).then(|| numbers_of(peak, id))
}

fn numbers_of(all: &[(NamespaceId, u64)], id: NamespaceId) -> u64 {
    let found = all.iter().find(|(namespace, _)| *namespace == id);
    found.map_or(0, |(_, n)| *n)
}

#[cfg(test)]
mod tests {
    use seqsvr_core::command::{Batch, Command};
    use seqsvr_core::id::ClusterId;
    use seqsvr_core::state::State;
    use seqsvr_store::backup::{About, Seen};

    use super::*;

    /// Returns a backup of a new cluster whose store measured for `watched` seconds.
    fn backup_with(watched: u64) -> Backup {
        let cluster = ClusterId(7);
        let mut state = State::default();
        let init = Command::Init {
            cluster,
            lease_ms: 3_000,
            slots: 1,
        };
        let batch = Batch {
            commands: vec![init],
        };
        state.apply(1, &batch, &mut Default::default());
        let usage = Seen {
            watched,
            added: vec![(NamespaceId(1), 50)],
            ..Seen::default()
        };
        Backup {
            about: About {
                cluster,
                term: 1,
                index: 1,
                seen: usage,
            },
            state,
        }
    }

    /// A rate of 0.0 would make an operator choose the smallest margin.
    #[test]
    fn backup_of_a_directory_has_no_rates() {
        let (directory, running) = (
            namespace_lines(&backup_with(0)),
            namespace_lines(&backup_with(10)),
        );
        assert!(!directory.is_empty());
        for line in directory {
            assert!(line.ends_with("the pace is not known"), "{line}");
        }
        let known = "5.0 numbers added a second on average, the peak is unknown";
        assert!(
            running.iter().any(|line| line.ends_with(known)),
            "{running:?}"
        );
    }
}
