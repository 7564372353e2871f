//! `seqsvr backup`: the state of a running cluster in a file.
//!
//! Invariant: a file under its final name is a whole backup, durable, and read back once: written
//! aside, synced, checked, renamed, directory synced. A file that exists is never replaced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use seqsvr_core::id::NamespaceId;
use seqsvr_core::state::restore::Windows;
use seqsvr_store::backup::{self, Backup};

use super::server::Session;
use crate::exit::BadInput;
use crate::{cli, out};

pub(crate) async fn run(args: cli::Backup) -> anyhow::Result<()> {
    let file = &args.file;
    refuse_existing(file)?;
    let session = Session::open(&args.server)?;
    let part = aside(file)?;
    let taken = match fetch(&session, &part).await {
        Ok(taken) => taken,
        Err(error) => {
            // The error says what went wrong; a leftover is only in the way of the next try.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
    };
    refuse_existing(file)?;
    fs::rename(&part, file).with_context(|| format!("cannot rename to {}", file.display()))?;
    let dir = file.parent().filter(|p| !p.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    File::open(dir)
        .and_then(|d| d.sync_all())
        .with_context(|| format!("cannot sync directory {}", dir.display()))?;
    let (about, state) = (&taken.about, &taken.state);
    out::line(format_args!("file      {}", file.display()))?;
    out::line(format_args!("cluster   {}", about.cluster))?;
    out::line(format_args!("index     {}", about.index))?;
    out::line(format_args!("sections  {}", state.sections().count()))?;
    for line in namespaces(&taken) {
        out::line(line)?;
    }
    Ok(())
}

/// Fetches it into a file that exists already, makes that durable, and reads it back.
async fn fetch(session: &Session, part: &Path) -> anyhow::Result<Backup> {
    let writing = || format!("cannot write {}", part.display());
    let file = OpenOptions::new().write(true).open(part);
    let mut out = BufWriter::new(file.with_context(writing)?);
    let mut coming = session.client.admin().backup().await?;
    while let Some(bytes) = coming.chunk().await? {
        out.write_all(&bytes).with_context(writing)?;
    }
    let file = out.into_inner().map_err(io::Error::from);
    file.and_then(|f| f.sync_all()).with_context(writing)?;
    Ok(backup::read(part)?)
}

fn refuse_existing(file: &Path) -> anyhow::Result<()> {
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

/// An empty file beside the final one, of this process's own.
fn aside(file: &Path) -> anyhow::Result<PathBuf> {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(name);
    File::create(&part).with_context(|| format!("cannot create {}", part.display()))?;
    Ok(part)
}

/// Returns a line for each namespace: its open windows, and how fast numbers were added.
pub(super) fn namespaces(taken: &Backup) -> Vec<String> {
    let windows = taken.state.open_windows();
    let line = |n: &seqsvr_core::namespace::Namespace| {
        let Windows { open, largest } = windows.get(&n.id).copied().unwrap_or_default();
        let name = &n.spec.name;
        let pace = pace(taken, n.id);
        let peak = match peak(taken, n.id) {
            Some(peak) => format!("at most {peak} in a minute"),
            None => String::from("the peak is unknown"),
        };
        format!(
            "namespace {name}: {open} sections open, largest window {largest} numbers, {pace:.1} numbers added a second on average, {peak}"
        )
    };
    taken.state.namespaces().map(line).collect()
}

/// Returns the average of numbers a second that the store saw added in a namespace. It is no bound.
fn pace(taken: &Backup, id: NamespaceId) -> f64 {
    let seen = &taken.about.seen;
    of(&seen.added, id) as f64 / seen.watched.max(1) as f64
}

/// Returns the numbers of the minute that added most in a namespace; None if the store saw nothing, or if
/// an older build made the backup.
pub(super) fn peak(taken: &Backup, id: NamespaceId) -> Option<u64> {
    let peak = &taken.about.seen.peak;
    (!peak.is_empty()).then(|| of(peak, id))
}

fn of(all: &[(NamespaceId, u64)], id: NamespaceId) -> u64 {
    let found = all.iter().find(|(namespace, _)| *namespace == id);
    found.map_or(0, |(_, n)| *n)
}
