//! Python environments under `target/`: one for each pinned set of packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// File that marks an environment as complete.
const COMPLETE: &str = "complete";
/// What pip prints about an index that does not answer. An index that answers never causes it.
const UNANSWERED: [&str; 2] = ["Retrying (Retry(", "Max retries exceeded"];

/// Why an environment cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// The package index does not answer: whatever needs the environment may be skipped.
    Unanswered(String),
    /// Anything else.
    Wrong(String),
}

/// Returns the directory of an environment with these requirements, and makes it if it is missing.
///
/// The name should contain the version of what is pinned: a new version then gets a new
/// environment.
///
/// # Errors
/// The package index does not answer, `python3` is not installed, or a requirement cannot be met.
pub fn environment(name: &str, requirements: &[&str]) -> Result<PathBuf, Missing> {
    let dir = target().join("venv").join(name);
    if dir.join(COMPLETE).is_file() {
        return Ok(dir);
    }
    // What an earlier run began and did not complete.
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|e| Missing::Wrong(format!("{}: {e}", dir.display())))?;
    }
    eprintln!("making {}", dir.display());
    let mut make = Command::new("python3");
    pip(make.args(["-m", "venv"]).arg(&dir))?;
    let mut install = Command::new(dir.join("bin/python"));
    install
        .args(["-m", "pip", "--disable-pip-version-check", "--no-input"])
        .args(["--retries", "1", "--timeout", "15", "install", "--quiet"])
        .args(requirements);
    pip(&mut install)?;
    let complete = fs::write(dir.join(COMPLETE), requirements.join("\n"));
    complete.map_err(|e| Missing::Wrong(format!("{}: {e}", dir.display())))?;
    Ok(dir)
}

/// The build directory of this workspace.
pub fn target() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), PathBuf::from)
}

fn pip(command: &mut Command) -> Result<(), Missing> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output =
        output.map_err(|e| Missing::Wrong(format!("{name}: {e}; install Python 3.10 or newer")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
    Err(failure(&text.concat()))
}

/// Tells an index that does not answer from everything else.
fn failure(output: &str) -> Missing {
    let last = output
        .trim_end()
        .lines()
        .last()
        .unwrap_or("no output")
        .to_owned();
    match UNANSWERED.iter().any(|sign| output.contains(sign)) {
        true => Missing::Unanswered(format!("the package index does not answer: {last}")),
        false => Missing::Wrong(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of pip 23 to 26.
    #[test]
    fn only_an_index_that_does_not_answer_is_a_reason_to_skip() {
        let last = "ERROR: No matching distribution found for schemathesis==4.32.5";
        let unanswered = format!(
            "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection \
             broken by 'NewConnectionError('…: Failed to establish a new connection: [Errno 111] Connection refused')': \
             /simple/schemathesis/\nERROR: Could not find a version that satisfies the requirement (from versions: none)\n{last}\n"
        );
        assert!(matches!(failure(&unanswered), Missing::Unanswered(text) if text.ends_with(last)));
        let answered = format!(
            "ERROR: Could not find a version that satisfies the requirement schemathesis==4.32.5 (from versions: 0.1.0)\n{last}"
        );
        assert_eq!(failure(&answered), Missing::Wrong(last.to_owned()));
        assert_eq!(failure(""), Missing::Wrong("no output".to_owned()));
    }
}
