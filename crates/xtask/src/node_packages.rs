//! Packages of Node.js under `target/`: one directory for each pinned set.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::venv::{self, VenvError};

/// Codes that npm prints only if the registry does not answer.
const REGISTRY_UNREACHABLE: [&str; 6] = [
    "ECONNREFUSED",
    "ECONNRESET",
    "EAI_AGAIN",
    "ENOTFOUND",
    "ETIMEDOUT",
    "EIDLETIMEOUT",
];

/// Returns the directory of these packages, and fills it if it is missing or has other ones.
///
/// # Errors
/// npm is not installed, the registry does not answer, or a package cannot be installed.
pub(crate) fn install_packages(name: &str, packages: &[&str]) -> Result<PathBuf, VenvError> {
    let dir = venv::target_dir().join("node").join(name);
    venv::make_once(&dir, packages, |dir| {
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
            .args([
                "--fetch-retries",
                "1",
                "--fetch-timeout",
                "15000",
                "--loglevel",
                "error",
            ])
            .args(["--no-save", "--prefix"])
            .arg(dir)
            .args(packages)
            .current_dir(dir)
            .stdin(Stdio::null());
        let output = npm.output().map_err(|e| match e.kind() {
            ErrorKind::NotFound => VenvError::Unavailable("npm is not installed".into()),
            _ => VenvError::Failed(format!("npm: {e}")),
        })?;
        match output.status.success() {
            true => Ok(()),
            false => Err(classify_failure(&String::from_utf8_lossy(&output.stderr))),
        }
    })?;
    Ok(dir.join("node_modules"))
}

/// Distinguishes a registry that does not answer from any other failure.
fn classify_failure(output: &str) -> VenvError {
    let first_line = output.trim().lines().next().unwrap_or("no output");
    match REGISTRY_UNREACHABLE
        .iter()
        .any(|code| output.contains(code))
    {
        true => VenvError::Unavailable(format!("the npm registry does not answer: {first_line}")),
        false => VenvError::Failed(format!("npm: {first_line}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of npm 11.
    #[test]
    fn only_unreachable_registry_is_a_reason_to_skip() {
        let unreachable = "npm error code ECONNREFUSED\nnpm error syscall connect\n";
        let failure = classify_failure(unreachable);
        assert!(matches!(failure, VenvError::Unavailable(text) if text.ends_with("ECONNREFUSED")));
        let failure = classify_failure("npm error code ETARGET\nnpm error notarget\n");
        assert_eq!(
            failure,
            VenvError::Failed("npm: npm error code ETARGET".into())
        );
    }
}
