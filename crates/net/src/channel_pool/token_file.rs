//! The file with the token of a caller.

use std::path::{Path, PathBuf};

use seqsvr_access::Secret;
use tonic::metadata::errors::InvalidMetadataValue;
use tonic::metadata::{AsciiMetadataValue, MetadataMap};

use crate::tls::private_files::{Secrecy, read_named_file};

/// Name of the header with a token.
const AUTHORIZATION: &str = "authorization";

/// A file with a token that cannot be used; the text says why, and what to do. The token is not
/// part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadTokenFile(String);

/// The file with the token of a caller: one line, which only its owner may read.
#[derive(Clone, Debug)]
pub struct TokenFile {
    path: PathBuf,
}

impl TokenFile {
    /// Names a file, which is read at each use, so that a new token takes effect.
    pub fn new(path: impl Into<PathBuf>) -> TokenFile {
        TokenFile { path: path.into() }
    }

    /// Returns the name of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the token, and writes it into the metadata of a call.
    pub(super) fn write_metadata(&self, metadata: &mut MetadataMap) -> Result<(), BadTokenFile> {
        let token = self.read()?;
        // Debug texts and logs of the protocol leave it out.
        let value = sensitive_value(&format!("Bearer {}", token.expose()));
        metadata.insert(
            AUTHORIZATION,
            value.map_err(|_| self.bad(&"it is no header"))?,
        );
        Ok(())
    }

    fn read(&self) -> Result<Secret, BadTokenFile> {
        let remedy = "name a file that `seqsvr auth add --out` made, and readable by this user";
        let bytes = read_named_file(&self.path, Secrecy::Secret, remedy)
            .map_err(|error| BadTokenFile(error.to_string()))?;
        let text = str::from_utf8(&bytes).unwrap_or_default();
        let line = text.strip_suffix('\n').unwrap_or(text);
        let line = line.strip_suffix('\r').unwrap_or(line);
        match bytes.is_empty() {
            true => Err(self.bad(&format!("it is empty; {remedy}"))),
            false => Secret::parse(line).map_err(|error| self.bad(&error)),
        }
    }

    fn bad(&self, why: &dyn std::fmt::Display) -> BadTokenFile {
        BadTokenFile(format!("{}: {why}", self.path.display()))
    }
}

fn sensitive_value(text: &str) -> Result<AsciiMetadataValue, InvalidMetadataValue> {
    let mut value = AsciiMetadataValue::try_from(text)?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn header_of(file: &TokenFile) -> Result<String, String> {
        let mut metadata = MetadataMap::new();
        let written = file.write_metadata(&mut metadata);
        written.map_err(|error| error.to_string())?;
        assert!(!format!("{metadata:?}").contains("sq_"), "{metadata:?}");
        let value = metadata.get(AUTHORIZATION).unwrap();
        Ok(value.to_str().unwrap().to_owned())
    }

    #[test]
    fn token_is_read_at_each_use_from_a_private_file_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("billing.token");
        let file = TokenFile::new(&path);
        let write = |content: &str, mode| {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        };
        let missing = header_of(&file).unwrap_err();
        assert!(missing.contains("billing.token: No such file"), "{missing}");
        assert!(missing.contains("`seqsvr auth add --out`"), "{missing}");

        for end in ["", "\n", "\r\n"] {
            let token = Secret::generate().unwrap();
            let token = token.expose();
            write(&format!("{token}{end}"), 0o600);
            assert_eq!(header_of(&file), Ok(format!("Bearer {token}")));

            for (content, mode, expected) in [
                (format!("{token}{end}"), 0o644, "other users may read"),
                (format!("{token}{end}"), 0o602, "chmod 600"),
                (String::new(), 0o600, "billing.token: it is empty"),
                ("\n".to_owned(), 0o600, "billing.token: it is no token"),
                (format!("{token}\n\n"), 0o600, "it is no token"),
                (format!("{token}\n{token}\n"), 0o600, "it is no token"),
                (format!("Bearer {token}"), 0o600, "it is no token"),
                (token[..60].to_owned(), 0o600, "it is no token"),
                (token.repeat(20_000), 0o600, "more than 1048576 bytes"),
            ] {
                write(&content, mode);
                let error = header_of(&file).unwrap_err();
                assert!(error.contains(expected), "{error}");
                assert!(
                    !error.contains("sq_0") && !error.contains(&token[..16]),
                    "{error}"
                );
            }
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = header_of(&file).unwrap_err();
        assert!(error.contains("billing.token: "), "{error}");
    }
}
