//! Snapshot files.
//!
//! ```text
//! "SEQSNAP\n" | header record | rows record … | trailer record
//! ```
//! Every record of it has the state's format level, so an older build rejects the file at its
//! header. The header names cluster, last log id, membership and row count; each rows record
//! carries up to [`ROWS_PER_RECORD`] rows; the trailer repeats the row count and holds the digest
//! over all rows. Invariant: a file under its final name is whole and durable (written aside,
//! synced, renamed, directory synced). The log is purged only up to such a file. If one does not
//! read back, the node refuses to start and never skips it: the log below it is gone.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use seqsvr_core::ids::ClusterId;
use seqsvr_core::state::{RowKey, State, StateBuilder, StateRow};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::record;
use crate::state::applied_state::AppliedState;
use crate::state::digest::RowsDigest;
use crate::storage::data_dir::{self, DataDir};
use crate::types::{CommittedLeaderId, Peer, SnapshotMeta};

const MAGIC: &[u8; 8] = b"SEQSNAP\n";
const ROWS_PER_RECORD: usize = 1_000;
const EXTENSION: &str = "snapshot";
/// Extensions of files that are being written or received here.
const UNFINISHED: [&str; 2] = ["building", "part"];

#[derive(Serialize, Deserialize)]
struct SnapshotHeader {
    /// None: taken before the cluster's first command was applied.
    cluster: Option<ClusterId>,
    meta: SnapshotMeta,
    rows: u64,
}

#[derive(Serialize, Deserialize)]
struct RowsTrailer {
    rows: u64,
    digest: RowsDigest,
}

/// A snapshot as openraft hands it over.
pub(crate) type Snapshot = openraft::storage::Snapshot<CommittedLeaderId, u64, Peer, SnapshotFile>;

/// A whole snapshot file, held open, so it can be sent though a newer one replaces it.
pub(crate) struct SnapshotFile {
    pub(crate) path: PathBuf,
    pub(crate) file: File,
    /// Its content, see [`SnapshotFile::into_prepared`].
    content: Option<Box<(SnapshotMeta, AppliedState)>>,
}

impl SnapshotFile {
    pub(crate) fn open(path: &Path) -> io::Result<SnapshotFile> {
        Ok(SnapshotFile {
            path: path.to_owned(),
            file: File::open(path)?,
            content: None,
        })
    }

    /// Returns the bytes of the file.
    pub(crate) fn file_len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Does all steps of an install that take longer the more rows there are. It reads the file to
    /// its end, checks it, syncs it, and makes the state that [`SnapshotFile::take_content`]
    /// returns.
    pub(crate) fn into_prepared(self) -> Result<SnapshotFile, Error> {
        let (meta, state) = read_snapshot(&self)?;
        let synced = seqsvr_os::sync_file(&self.file);
        synced.map_err(Error::io("cannot sync", &self.path))?;
        let applied = AppliedState::new(state, meta.last_log_id, meta.last_membership.clone());
        let applied = applied.map_err(Error::reading(&self.path))?;
        Ok(SnapshotFile {
            content: Some(Box::new((meta, applied))),
            ..self
        })
    }

    /// Returns its header, once it is prepared.
    pub(crate) fn prepared_meta(&self) -> Option<&SnapshotMeta> {
        self.content.as_deref().map(|(meta, _)| meta)
    }

    /// Returns the file and its content; the file alone if it is not prepared.
    pub(crate) fn take_content(
        mut self,
    ) -> Result<(SnapshotFile, SnapshotMeta, AppliedState), SnapshotFile> {
        match self.content.take() {
            Some(content) => Ok((self, content.0, content.1)),
            None => Err(self),
        }
    }
}

/// Returns the final name of the snapshot of a log id: names sort like ids.
pub(crate) fn snapshot_path(directory: &DataDir, meta: &SnapshotMeta) -> PathBuf {
    let (term, index) = meta
        .last_log_id
        .map_or((0, 0), |id| (id.leader_id.term, id.index));
    directory
        .snapshots_path()
        .join(format!("{term:020}-{index:020}.{EXTENSION}"))
}

/// Writes a snapshot and publishes it durably.
///
/// Invariant: it reads back before it has its final name. Schedule that breaks it: the disk stores
/// the file wrong; the log below it and the older snapshot are deleted. This node can then neither
/// start again nor help another.
///
/// Invariant: the file is open before it has its final name. Schedule that breaks it: a snapshot at
/// entry 100 is renamed. A leader's snapshot at entry 200 is installed and deletes the older ones.
/// The builder opens the first one, and it is gone. To openraft that is a broken disk, which stops
/// the node.
pub(crate) fn write_snapshot(
    directory: &DataDir,
    meta: &SnapshotMeta,
    state: &State,
) -> Result<SnapshotFile, Error> {
    let path = snapshot_path(directory, meta);
    let tmp = path.with_extension("building");
    let file = data_dir::create_private_file(&tmp);
    let file = file.map_err(Error::io("cannot create", &tmp))?;
    write_to(file, meta, state).map_err(Error::io("cannot write", &tmp))?;
    let built = SnapshotFile::open(&tmp).map_err(Error::io("cannot open", &tmp))?;
    verify_snapshot(&built, meta)?;
    data_dir::publish_file(&tmp, &path)?;
    Ok(SnapshotFile { path, ..built })
}

fn write_to(file: File, meta: &SnapshotMeta, state: &State) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    out.write_all(MAGIC)?;
    let header = SnapshotHeader {
        cluster: state.cluster().map(|c| c.id),
        meta: meta.clone(),
        rows: state.rows_len(),
    };
    out.write_all(&record::encode_at_level(state.format_level(), &header)?)?;
    write_rows(&mut out, state)?;
    seqsvr_os::sync_file(&out.into_inner().map_err(|e| e.into_error())?)
}

/// Writes all rows and the trailer, under the state's format level.
pub(crate) fn write_rows(out: &mut impl Write, state: &State) -> io::Result<()> {
    let level = state.format_level();
    let mut rows = 0;
    let mut digest = RowsDigest::default();
    let mut part: Vec<(RowKey, StateRow)> = Vec::with_capacity(ROWS_PER_RECORD);
    for (key, row) in state.rows() {
        rows += 1;
        digest.add(RowsDigest::of_row(&key, &row)?);
        part.push((key, row));
        if part.len() == ROWS_PER_RECORD {
            out.write_all(&record::encode_at_level(level, &part)?)?;
            part.clear();
        }
    }
    if !part.is_empty() {
        out.write_all(&record::encode_at_level(level, &part)?)?;
    }
    out.write_all(&record::encode_at_level(
        level,
        &RowsTrailer { rows, digest },
    )?)
}

/// Reads a snapshot file to its end and checks all of it.
pub(crate) fn read_snapshot(snapshot: &SnapshotFile) -> Result<(SnapshotMeta, State), Error> {
    read_from(&snapshot.file).map_err(Error::reading(&snapshot.path))
}

/// Reads a snapshot file on the disk to its end and checks all of it, without the memory that its
/// state takes.
pub(crate) fn verify_snapshot(snapshot: &SnapshotFile, meta: &SnapshotMeta) -> Result<(), Error> {
    let check = || {
        // The file is synced, so its pages are clean and can be dropped. If a kernel keeps some of
        // them, the check reads less from the disk, and has no other effect.
        fadvise(&snapshot.file, 0, None, Advice::DontNeed)?;
        let (header, mut input) = read_header(&snapshot.file)?;
        if header.meta != *meta {
            return Err(invalid_data("its header is not what was written"));
        }
        for_each_part(&mut input, header.rows, drop)
    };
    check().map_err(Error::reading(&snapshot.path))
}

/// Reads the header; the rows follow.
fn read_header(mut file: &File) -> io::Result<(SnapshotHeader, BufReader<&File>)> {
    file.rewind()?;
    let mut input = BufReader::new(file);
    let mut magic = [0; 8];
    input.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(invalid_data("it is not a snapshot"));
    }
    let header = record::read_value(&mut input)?;
    Ok((header, input))
}

fn read_from(file: &File) -> io::Result<(SnapshotMeta, State)> {
    let (header, mut input) = read_header(file)?;
    let state = read_rows(&mut input, header.rows)?;
    if state.cluster().map(|c| c.id) != header.cluster {
        return Err(invalid_data(
            "its rows are of another cluster than its header",
        ));
    }
    Ok((header.meta, state))
}

/// Reads this number of rows and the trailer, which must be the end.
pub(crate) fn read_rows(input: &mut impl Read, count: u64) -> io::Result<State> {
    let mut state = StateBuilder::default();
    for_each_part(input, count, |part| {
        part.into_iter().for_each(|(key, row)| state.add(key, row));
    })?;
    state
        .finish()
        .ok_or_else(|| invalid_data("its rows do not fit together"))
}

/// Passes on this number of rows, one record of them at a time, and checks them against the
/// trailer.
fn for_each_part(
    input: &mut impl Read,
    count: u64,
    mut take: impl FnMut(Vec<(RowKey, StateRow)>),
) -> io::Result<()> {
    let mut digest = RowsDigest::default();
    let mut rows = 0;
    while rows < count {
        let part: Vec<(RowKey, StateRow)> = record::read_value(input)?;
        if part.is_empty() {
            return Err(invalid_data("it has fewer rows than its header states"));
        }
        for (key, row) in &part {
            digest.add(RowsDigest::of_row(key, row)?);
        }
        rows += part.len() as u64;
        take(part);
    }
    let trailer: RowsTrailer = record::read_value(input)?;
    if trailer.rows != rows || trailer.digest != digest {
        return Err(invalid_data("its digest does not match its rows"));
    }
    if input.read(&mut [0])? != 0 {
        return Err(invalid_data("bytes follow its end"));
    }
    Ok(())
}

pub(crate) fn invalid_data(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// Reads and checks the newest snapshot. Deletes nothing: only after log and identity are read as
/// well is it known whether this is the node's own snapshot.
pub(crate) fn read_newest(directory: &DataDir) -> Result<Option<(SnapshotMeta, State)>, Error> {
    let mut snapshots = data_dir::list_files_of(&directory.snapshots_path(), EXTENSION)?;
    let Some(path) = snapshots.pop() else {
        return Ok(None);
    };
    // The last process may have seen a rename that is not durable yet.
    data_dir::sync_dir(&directory.snapshots_path())?;
    let snapshot = SnapshotFile::open(&path).map_err(Error::io("cannot open", &path))?;
    let (meta, state) = read_snapshot(&snapshot)?;
    if snapshot_path(directory, &meta) != path {
        return Err(Error::damaged(&path, "its name does not fit its content"));
    }
    Ok(Some((meta, state)))
}

/// Returns the size of the newest snapshot in a directory; None if it has none.
pub(crate) fn newest_snapshot_bytes(directory: &Path) -> Option<u64> {
    let files = data_dir::list_files_of(directory, EXTENSION).ok()?;
    Some(files.last()?.metadata().ok()?.len())
}

/// Deletes unfinished files of an earlier process; files that no store wrote stay.
pub(crate) fn remove_unfinished_files(directory: &DataDir) -> Result<(), Error> {
    for extension in UNFINISHED {
        for path in data_dir::list_files_of(&directory.snapshots_path(), extension)? {
            std::fs::remove_file(&path).map_err(Error::io("cannot delete", &path))?;
        }
    }
    Ok(())
}

/// Deletes every snapshot but `keep`.
pub(crate) fn remove_older_than(directory: &DataDir, keep: &Path) -> Result<(), Error> {
    for path in data_dir::list_files_of(&directory.snapshots_path(), EXTENSION)? {
        if path.as_path() < keep {
            std::fs::remove_file(&path).map_err(Error::io("cannot delete", &path))?;
        }
    }
    Ok(())
}
