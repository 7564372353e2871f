//! Passwords and tokens of a server: where they come from, and who may see them.
//!
//! Invariant: no secret is empty, and none is an argument of the process. Schedules that break it:
//! `--redis-password X` is in the process list, which every user of the machine may read.
//! `SEQSVR_REDIS_PASSWORD=$PASSWORD` is set from a variable that does not exist, and `AUTH ""`
//! succeeds.

use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::cli::EndpointArgs;
use crate::output::exit_code::BadInput;
use crate::secret_file::read_secret_file;

/// Rejects a command line that has a secret.
///
/// # Errors
/// A flag whose value must not be shown is on the command line.
pub(crate) fn reject_secret_arguments(
    command: &Command,
    matches: &ArgMatches,
) -> Result<(), BadInput> {
    let is_argument = |arg: &&Arg| {
        arg.is_hide_env_values_set()
            && matches.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    if let Some(flag) = command.get_arguments().find(is_argument) {
        let name = flag.get_long().unwrap_or_default();
        let variable = flag.get_env().unwrap_or_default().display();
        return Err(BadInput(format!(
            "--{name} on the command line: every user of this machine may read it in the process list; use --{name}-file FILE, {variable}, or the key {name} of the configuration file, and choose a new secret"
        )));
    }
    match matches.subcommand() {
        Some((name, matches)) => command
            .find_subcommand(name)
            .map_or(Ok(()), |command| reject_secret_arguments(command, matches)),
        None => Ok(()),
    }
}

/// Replaces the files with secrets by their contents.
///
/// # Errors
/// A secret is set twice, or its file has none that can be used: [`BadInput`]. The system fails to
/// read a file.
pub(crate) fn read_secret_files(args: &mut EndpointArgs) -> anyhow::Result<()> {
    for (flag, text, file) in [
        (
            "--redis-password",
            &mut args.redis_password,
            &args.redis_password_file,
        ),
        (
            "--tinyid-token",
            &mut args.tinyid_token,
            &args.tinyid_token_file,
        ),
    ] {
        *text = resolve_secret(flag, text.take(), file.as_deref())?;
    }
    Ok(())
}

/// Returns the secret that `flag` names. It is the `text` of the environment or of the
/// configuration file, or the content of `file`.
///
/// # Errors
/// Both are set, or the file has no secret that can be used.
fn resolve_secret(
    flag: &str,
    text: Option<String>,
    file: Option<&Path>,
) -> anyhow::Result<Option<String>> {
    match (text, file) {
        (Some(_), Some(file)) => Err(BadInput(format!(
            "{flag}-file {}: the environment or the configuration file sets {flag} too; keep one of them",
            file.display()
        ))
        .into()),
        (None, Some(file)) => {
            let flag = format!("{flag}-file");
            let (secret, open_mode) = read_secret_file(&flag, file)?;
            if let Some(mode) = open_mode {
                tracing::warn!(
                    file = %file.display(),
                    mode = %format_args!("{mode:04o}"),
                    "every user of this machine may read or write the file with a secret; run `chmod 600` on it as its owner"
                );
            }
            Ok(Some(secret))
        }
        (text, None) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret_file::SECRET_FILE_BYTES_MAX;

    fn resolve_file(content: &[u8]) -> Result<Option<String>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, content).unwrap();
        resolve_secret("--redis-password", None, Some(&path)).map_err(|e| e.to_string())
    }

    #[test]
    fn secret_of_file_has_no_newline_at_its_end() {
        for content in ["a b", "a b\n", "a b\r\n"] {
            let secret = resolve_file(content.as_bytes()).unwrap();
            assert_eq!(secret.as_deref(), Some("a b"), "{content:?}");
        }
        let longest = "x".repeat(SECRET_FILE_BYTES_MAX as usize);
        assert_eq!(
            resolve_file(longest.as_bytes()).unwrap().as_deref(),
            Some(&*longest)
        );
    }

    #[test]
    fn file_without_usable_secret_is_rejected() {
        let too_long = vec![b'x'; SECRET_FILE_BYTES_MAX as usize + 1];
        for (content, words) in [
            (&b""[..], "it has no secret"),
            (b"\n", "it has no secret"),
            (b"\r\n", "it has no secret"),
            (b"\n\n", "several lines"),
            (b"a\nb\n", "several lines"),
            (b"\xff", "not UTF-8"),
            (&too_long, "more than 4096 bytes"),
        ] {
            let error = resolve_file(content).unwrap_err();
            assert!(
                error.starts_with("--redis-password-file /") && error.contains(words),
                "{error}"
            );
        }
        let missing = resolve_secret("--redis-password", None, Some("/no/such".as_ref()));
        let error = missing.unwrap_err();
        assert!(error.is::<BadInput>());
        let error = error.to_string();
        assert!(
            error.contains("/no/such: cannot be read: No such file"),
            "{error}"
        );
        // EIO: no process maps its first page. The next start may read the file.
        let failing = resolve_secret("--redis-password", None, Some("/proc/self/mem".as_ref()));
        let error = failing.unwrap_err();
        assert!(!error.is::<BadInput>(), "{error}");
        // It has no end.
        let endless = resolve_secret("--tinyid-token", None, Some("/dev/zero".as_ref()));
        assert!(endless.unwrap_err().to_string().contains("more than 4096"));
    }

    #[test]
    fn secret_of_two_sources_is_rejected() {
        let error =
            resolve_secret("--tinyid-token", Some("a".into()), Some("/x".as_ref())).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("--tinyid-token-file /x: the environment"),
            "{error}"
        );
        let text = resolve_secret("--tinyid-token", Some("a".into()), None).unwrap();
        assert_eq!(text.as_deref(), Some("a"));
        assert_eq!(resolve_secret("--tinyid-token", None, None).unwrap(), None);
    }
}
