//! `seqsvr backup`: writes the state of a running cluster to a file, or to stdout.
//!
//! Invariant: a file under its final name is a complete and durable backup that was read back
//! once. The command writes a temporary file, syncs it, checks it, gives it its final name, and
//! syncs the directory. It never replaces an existing file and never follows a link. The temporary
//! file has a random name, is new, and is readable by this user only.
//!
//! Schedule that breaks it: the directory is open to other users. One of them guesses the temporary
//! name and makes it a link to a file that only root may write.

mod verified_stdout;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, bail};
use seqsvr_store::backup::{self, StateBackup};
use verified_stdout::VerifiedStdout;

use super::family_line;
use super::namespace_rates::{UNKNOWN_RATE_ADVICE, has_rates, namespace_lines};
use crate::cli;
use crate::commands::cli_client::CliClient;
use crate::output::exit_code::BadInput;
use crate::output::{log, stdout};
use crate::part_file::{create_part_file, dir_of, publish_new, reject_existing};

/// Name of a file that stands for stdout.
const STDOUT_NAME: &str = "-";
/// What the file is, for errors.
const WHAT: &str = "a backup";
/// Bytes that are gathered before they are written.
const WRITE_BUFFER_BYTES: usize = 64 << 10;

pub(crate) async fn run(args: cli::BackupArgs) -> anyhow::Result<()> {
    match args.file.as_os_str() == STDOUT_NAME {
        true => write_stdout(&args).await,
        false => write_new_file(&args).await,
    }
}

async fn write_new_file(args: &cli::BackupArgs) -> anyhow::Result<()> {
    let file = &args.file;
    reject_existing(file, WHAT)?;
    let part = create_part_file(file)?;
    let mut out = BufWriter::with_capacity(WRITE_BUFFER_BYTES, part.as_file());
    let write_error = || format!("cannot write {}", part.path().display());
    produce(args, dir_of(file), &mut out, &write_error).await?;
    let written = out.into_inner().map_err(io::Error::from);
    written.and_then(File::sync_all).with_context(write_error)?;
    let backup = backup::read_backup_file(part.path())?;
    publish_new(part, file, WHAT)?;
    stdout::print_line(format_args!("file      {}", file.display()))?;
    for line in describe(&backup) {
        stdout::print_line(line)?;
    }
    Ok(())
}

/// Writes the backup to stdout, and what it has to stderr.
async fn write_stdout(args: &cli::BackupArgs) -> anyhow::Result<()> {
    if io::stdout().is_terminal() {
        bail!(BadInput(
            "a backup is not text, and stdout is a terminal: send it to a program or a file, such as `seqsvr backup - | gzip > FILE`".into()
        ));
    }
    let out = VerifiedStdout::start().context("cannot start")?;
    let mut buffered = BufWriter::with_capacity(WRITE_BUFFER_BYTES, out);
    let scratch_parent = std::env::temp_dir();
    let produced = produce(args, &scratch_parent, &mut buffered, &|| {
        "cannot write to stdout".into()
    })
    .await;
    let flushed = buffered.flush();
    let (out, _) = buffered.into_parts();
    let verified = out.finish();
    let written = produced.and_then(|()| flushed.context("cannot write to stdout"));
    let backup = match (written, verified) {
        // The check has the reason if it ended early.
        (Err(error), verified) if !verified_stdout::is_check_ended(&error) => {
            drop(verified);
            return Err(error.context("what stdout received is no whole backup"));
        }
        (_, verified) => verified?,
    };
    for line in describe(&backup) {
        log::log_unfiltered(line);
    }
    Ok(())
}

/// Writes the bytes of the backup that the command line names to `out`.
async fn produce(
    args: &cli::BackupArgs,
    scratch_parent: &Path,
    out: &mut impl Write,
    write_error: &impl Fn() -> String,
) -> anyhow::Result<()> {
    match &args.data_dir {
        Some(dir) => salvage(dir, scratch_parent, out, write_error).await,
        None => download(&args.client, out, write_error).await,
    }
}

/// Writes a backup of the running cluster.
async fn download(
    args: &cli::ClientArgs,
    out: &mut impl Write,
    write_error: &impl Fn() -> String,
) -> anyhow::Result<()> {
    let client = CliClient::connect(args)?;
    let mut chunks = client.sdk.admin().backup().await?;
    while let Some(bytes) = chunks.chunk().await? {
        out.write_all(&bytes).with_context(write_error)?;
    }
    Ok(())
}

/// Writes the state of a stopped store's directory. A copy of its log is made in `scratch_parent`
/// and deleted.
async fn salvage(
    dir: &Path,
    scratch_parent: &Path,
    out: &mut impl Write,
    write_error: &impl Fn() -> String,
) -> anyhow::Result<()> {
    let scratch = tempfile::tempdir_in(scratch_parent);
    let scratch = scratch.with_context(|| {
        format!(
            "cannot make a directory for a copy of the log in {}",
            scratch_parent.display()
        )
    })?;
    let salvaged = seqsvr_store::salvage::read_data_dir(dir, &scratch.path().join("log")).await?;
    salvaged.backup.write(out).with_context(write_error)?;
    log::log_text(format_args!(
        "WARNING: this backup has the state of one store's directory, not of the cluster.\n\
         The cluster may have acknowledged numbers after log index {} that are not in it, and\n\
         their rate is not known. {} of its last log entries are not known to be committed.\n\
         Use it only if a majority of the directories is lost and no newer backup exists.\n\
         Stop everything of the old cluster. Choose the margins of `seqsvr restore` so that they\n\
         cover all numbers that it can have issued since this store's last contact with a leader.",
        salvaged.backup.header.index, salvaged.unconfirmed
    ));
    Ok(())
}

/// Returns the lines about the content of a backup.
fn describe(backup: &StateBackup) -> Vec<String> {
    let (about, state) = (&backup.header, &backup.state);
    let mut lines = vec![
        format!("cluster   {}", about.cluster),
        format!("index     {}", about.index),
        format!("sections  {}", state.sections().count()),
        family_line(backup),
    ];
    lines.extend(namespace_lines(backup));
    if !has_rates(backup) {
        lines.push(format!("margins   {UNKNOWN_RATE_ADVICE}"));
    }
    lines
}
