//! Files that have one secret.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::output::exit_code::{BadInput, unreadable_input};

/// Maximum bytes of a file with a secret. A longer file is rejected.
pub(crate) const SECRET_FILE_BYTES_MAX: u64 = 4_096;
/// Bits of a mode that let any other user read or write. A group is the operator's choice.
const ANY_BY_ALL: u32 = 0o007;

/// What a file with a secret has.
pub(crate) struct SecretFile {
    /// The secret, without the newline at its end.
    pub(crate) secret: String,
    /// The mode; 0 if it is no regular file.
    pub(crate) mode: u32,
}

/// Reads the file that a flag names.
///
/// # Errors
/// It has no secret that can be used: [`BadInput`]. The system fails to read it.
pub(crate) fn read_secret_file(flag: &str, file: &Path) -> anyhow::Result<SecretFile> {
    let what = format!("{flag} {}", file.display());
    let (bytes, mode) = read_file(file)
        .map_err(|e| unreadable_input(&what, &e, "name a file that this user may read"))?;
    let secret = check_secret(bytes).map_err(|why| BadInput(format!("{what}: {why}")))?;
    Ok(SecretFile { secret, mode })
}

/// Returns whether a mode lets every user of the machine read or write.
pub(crate) fn is_open_to_all(mode: u32) -> bool {
    mode & ANY_BY_ALL != 0
}

/// Reads a file of at most [`SECRET_FILE_BYTES_MAX`] bytes, or one byte more of a longer one.
/// Returns the mode as well; 0 if it is no regular file.
fn read_file(path: &Path) -> io::Result<(Vec<u8>, u32)> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    let mut bytes = Vec::new();
    file.take(SECRET_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    let mode = if meta.is_file() { meta.mode() } else { 0 };
    Ok((bytes, mode & 0o7777))
}

/// Returns the secret that a file has, without the newline at its end.
fn check_secret(bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(format!(
            "it has more than {SECRET_FILE_BYTES_MAX} bytes; name a file that has only the secret"
        ));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| "it is not UTF-8; name a file that has only the secret".to_owned())?;
    let secret = match text.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => &text,
    };
    if secret.is_empty() {
        return Err("it has no secret; write one into it, or name another file".to_owned());
    }
    if secret.contains('\n') {
        return Err("it has several lines; name a file that has only the secret".to_owned());
    }
    Ok(secret.to_owned())
}
