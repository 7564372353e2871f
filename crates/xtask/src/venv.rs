//! Python environments under `target/`: one for each pinned set of packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// File that marks an environment as complete: its text is what the environment was made with.
const COMPLETE: &str = "complete";
/// Texts that pip prints only if the package index does not answer.
const INDEX_UNREACHABLE: [&str; 2] = ["Retrying (Retry(", "Max retries exceeded"];

/// Reason why an environment cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum VenvError {
    /// The package index does not answer, or has nothing for this machine. The caller may skip what
    /// needs the environment.
    Unavailable(String),
    /// Any other failure.
    Failed(String),
}

/// Returns the directory of an environment with these requirements, and makes it if it is missing
/// or has other ones.
///
/// # Errors
/// The package index does not answer, `python3` is not installed, or a requirement cannot be met.
pub fn make_environment(name: &str, requirements: &[&str]) -> Result<PathBuf, VenvError> {
    let dir = target_dir().join("venv").join(name);
    make_once(&dir, requirements, |dir| {
        let mut make = Command::new("python3");
        run_pip(make.args(["-m", "venv"]).arg(dir))?;
        let mut install = Command::new(dir.join("bin/python"));
        install
            .args(["-m", "pip", "--disable-pip-version-check", "--no-input"])
            .args(["--retries", "1", "--timeout", "15", "install", "--quiet"])
            .args(requirements);
        run_pip(&mut install)
    })?;
    Ok(dir)
}

/// Makes a directory with `fill`, unless an earlier run completed it with the same requirements.
pub(crate) fn make_once(
    dir: &Path,
    requirements: &[&str],
    fill: impl FnOnce(&Path) -> Result<(), VenvError>,
) -> Result<(), VenvError> {
    let (mark, text) = (dir.join(COMPLETE), requirements.join("\n"));
    if fs::read_to_string(&mark).is_ok_and(|made_with| made_with == text) {
        return Ok(());
    }
    let failed = |e: std::io::Error| VenvError::Failed(format!("{}: {e}", dir.display()));
    // An earlier run did not complete the directory, or made it with other requirements.
    if dir.exists() {
        fs::remove_dir_all(dir).map_err(failed)?;
    }
    fs::create_dir_all(dir).map_err(failed)?;
    eprintln!("making {}", dir.display());
    fill(dir)?;
    fs::write(mark, text).map_err(failed)
}

/// Returns the build directory of this workspace.
pub(crate) fn target_dir() -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), PathBuf::from)
}

fn run_pip(command: &mut Command) -> Result<(), VenvError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output();
    let output = output
        .map_err(|e| VenvError::Failed(format!("{name}: {e}; install Python 3.10 or newer")))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
    Err(classify_failure(&text.concat()))
}

/// Distinguishes an index that does not answer from any other failure.
fn classify_failure(output: &str) -> VenvError {
    let last_line = output.trim_end().lines().last();
    let last_line = last_line.unwrap_or("no output").to_owned();
    match INDEX_UNREACHABLE.iter().any(|text| output.contains(text)) {
        true => {
            let text = format!("the package index does not answer: {last_line}");
            VenvError::Unavailable(text)
        }
        false => VenvError::Failed(last_line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_is_made_again_after_other_requirements_or_a_failure() {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("environment");
        let make = |requirements: &[&str], result: Result<(), VenvError>| {
            let mut is_made = false;
            let made = make_once(&dir, requirements, |dir| {
                is_made = true;
                assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
                fs::write(dir.join("file"), "").unwrap();
                result
            });
            (is_made, made.is_ok())
        };
        let failure = || Err(VenvError::Failed(String::new()));
        assert_eq!(make(&["a==1"], failure()), (true, false));
        assert_eq!(make(&["a==1"], Ok(())), (true, true));
        assert_eq!(make(&["a==1"], Ok(())), (false, true));
        assert_eq!(make(&["a==1", "b==1"], Ok(())), (true, true));
        assert_eq!(make(&["a==2", "b==1"], failure()), (true, false));
        assert_eq!(make(&["a==1", "b==1"], Ok(())), (true, true));
    }

    /// Lines of pip 23 to 26.
    #[test]
    fn only_unreachable_index_is_a_reason_to_skip() {
        let last = "ERROR: No matching distribution found for schemathesis==4.32.5";
        let retry = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, \
            status=None)) after connection broken by 'NewConnectionError('…: Failed to establish a \
            new connection: [Errno 111] Connection refused')': /simple/schemathesis/";
        let not_found = "ERROR: Could not find a version that satisfies the requirement";
        let unreachable = format!("{retry}\n{not_found} (from versions: none)\n{last}\n");
        let failure = classify_failure(&unreachable);
        assert!(matches!(failure, VenvError::Unavailable(text) if text.ends_with(last)));
        let answered = format!("{not_found} schemathesis==4.32.5 (from versions: 0.1.0)\n{last}");
        let failure = classify_failure(&answered);
        assert_eq!(failure, VenvError::Failed(last.to_owned()));
        let failure = classify_failure("");
        assert_eq!(failure, VenvError::Failed("no output".to_owned()));
    }
}
