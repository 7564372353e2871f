//! Files that have one secret.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::bail;

use crate::output::exit_code::{BadInput, unreadable_input};

/// Maximum bytes of a file with a secret. A longer file is rejected.
pub(crate) const SECRET_FILE_BYTES_MAX: u64 = 4_096;
/// Bits of a mode that let any other user read or write. A group is the operator's choice.
const ANY_BY_ALL: u32 = 0o007;

/// Reads the file that a flag names. Returns the secret, without the newline at its end, and the
/// mode if that lets every user of the machine read or write.
///
/// # Errors
/// It has no secret that can be used: [`BadInput`]. The system fails to read it.
pub(crate) fn read_secret_file(flag: &str, file: &Path) -> anyhow::Result<(String, Option<u32>)> {
    let what = format!("{flag} {}", file.display());
    let (bytes, mode) = read_file(file)
        .map_err(|e| unreadable_input(&what, &e, "name a file that this user may read"))?;
    let is_too_long = bytes.len() as u64 > SECRET_FILE_BYTES_MAX;
    let text = String::from_utf8(bytes).map(|text| match text.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line).to_owned(),
        None => text,
    });
    let why = match text {
        _ if is_too_long => format!("it has more than {SECRET_FILE_BYTES_MAX} bytes"),
        Err(_) => "it is not UTF-8".to_owned(),
        Ok(secret) if secret.is_empty() => "it has no secret".to_owned(),
        Ok(secret) if secret.contains('\n') => "it has several lines".to_owned(),
        Ok(secret) => return Ok((secret, Some(mode).filter(|mode| mode & ANY_BY_ALL != 0))),
    };
    bail!(BadInput(format!(
        "{what}: {why}; write only the secret into it, or name another file"
    )))
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
