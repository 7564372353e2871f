//! Finds programs of other systems and runs them to their end.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::compare::error::CompareError;

/// Folder in which Debian installs the programs of PostgreSQL. It is not in PATH.
const DEBIAN_POSTGRES_DIR: &str = "/usr/lib/postgresql";

/// Returns the path of a program.
pub(crate) fn find_program(name: &str) -> Result<PathBuf, CompareError> {
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = std::fs::read_dir(DEBIAN_POSTGRES_DIR).into_iter().flatten();
    let postgres_dirs = versions.filter_map(|entry| Some(entry.ok()?.path().join("bin")));
    let mut dirs = env::split_paths(&path).chain(postgres_dirs);
    let found = dirs.find_map(|dir| Some(dir.join(name)).filter(|path| path.is_file()));
    found.ok_or_else(|| CompareError::Unavailable(format!("{name} is not installed")))
}

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// The command does not start or does not succeed.
pub(crate) fn run_to_end(command: &mut Command) -> Result<String, CompareError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(CompareError::failed)?;
    let to_text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !output.status.success() {
        let name = command.get_program().to_string_lossy().into_owned();
        let text = format!("{name}: {}", to_text(&output.stderr).trim());
        return Err(CompareError::Failed(text));
    }
    Ok(to_text(&output.stdout))
}

/// Returns a free address on loopback.
pub(crate) fn free_address() -> String {
    format!("127.0.0.1:{}", seqsvr_test_support::process::free_ports(1))
}

/// Returns the port of an address.
pub(crate) fn port_of(address: &str) -> &str {
    address.rsplit(':').next().unwrap_or_default()
}

/// Makes a directory that is removed when it is dropped.
pub(crate) fn make_temp_dir() -> Result<TempDir, CompareError> {
    tempfile::tempdir().map_err(CompareError::failed)
}

/// Returns a path as an argument.
pub(crate) fn to_arg(path: &Path) -> String {
    path.display().to_string()
}
