//! `seqsvr backup`: writes the state of a running cluster to a file.
//!
//! Invariant: a file under its final name is a complete and durable backup that was read back
//! once. The command writes a temporary file, syncs it, checks it, renames it, and syncs the
//! directory. It never replaces an existing file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use seqsvr_store::backup::{self, StateBackup};

use super::namespace_rates::{UNKNOWN_RATE_ADVICE, has_rates, namespace_lines};
use crate::cli;
use crate::commands::cli_client::CliClient;
use crate::output::exit_code::BadInput;
use crate::output::{log, stdout};

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
    let (about, state) = (&backup.header, &backup.state);
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
async fn download(args: &cli::ClientArgs, part: &Path) -> anyhow::Result<StateBackup> {
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
    Ok(backup::read_backup_file(part)?)
}

/// Writes the state of a stopped store's directory into the existing file `part`, and reads it
/// back.
async fn salvage(dir: &Path, part: &Path) -> anyhow::Result<StateBackup> {
    let scratch = part.with_extension("log");
    let salvaged = seqsvr_store::salvage::read_data_dir(dir, &scratch).await;
    // The copy of the log is not needed any more.
    let _ = fs::remove_dir_all(&scratch);
    let salvaged = salvaged?;
    let write_error = || format!("cannot write {}", part.display());
    let file = OpenOptions::new().write(true).open(part);
    let mut out = BufWriter::new(file.with_context(write_error)?);
    salvaged.backup.write(&mut out).with_context(write_error)?;
    let file = out.into_inner().map_err(io::Error::from);
    file.and_then(|f| f.sync_all()).with_context(write_error)?;
    log::log_text(format_args!(
        "WARNING: this backup has the state of one store's directory, not of the cluster.\n\
         The cluster may have acknowledged numbers after log index {} that are not in it, and\n\
         their rate is not known. {} of its last log entries are not known to be committed.\n\
         Use it only if a majority of the directories is lost and no newer backup exists.\n\
         Stop everything of the old cluster. Choose the margins of `seqsvr restore` so that they\n\
         cover all numbers that it can have issued since this store's last contact with a leader.",
        salvaged.backup.header.index, salvaged.unconfirmed
    ));
    Ok(backup::read_backup_file(part)?)
}

/// Rejects a file that exists.
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
