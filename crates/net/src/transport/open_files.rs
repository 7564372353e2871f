//! Errors that say that no more files may be opened, and what to do about them.
//!
//! The system reports them for files and connections alike. Taken for an error of a disk or of a
//! network, they send the operator to the wrong place.

use std::io;

use rustix::io::Errno;

/// What removes the cause of such an error.
pub const OPEN_FILES_REMEDY: &str = "raise the limit of open files of this process (`ulimit -n`, LimitNOFILE= of its unit) or of the machine (fs.file-max), or close connections";

const CODES: [Errno; 2] = [Errno::MFILE, Errno::NFILE];

/// Returns whether this process, or the machine, may open no more files. An error that passed
/// through a library may have only its text.
pub fn is_out_of_descriptors(reason: &io::Error) -> bool {
    match Errno::from_io_error(reason) {
        Some(code) => CODES.contains(&code),
        None => names_open_files(&reason.to_string()),
    }
}

/// Returns the text of an error, with the remedy if it says that no more files may be opened.
pub fn with_open_files_remedy(text: String) -> String {
    match names_open_files(&text) && !text.contains(OPEN_FILES_REMEDY) {
        true => format!("{text}; {OPEN_FILES_REMEDY}"),
        false => text,
    }
}

/// Returns the error of a connection that was not made, with the remedy.
pub(super) fn describe_connect_error(error: io::Error) -> io::Error {
    match is_out_of_descriptors(&error) {
        true => io::Error::other(with_open_files_remedy(error.to_string())),
        false => error,
    }
}

fn names_open_files(text: &str) -> bool {
    let mut codes = CODES.iter().map(|code| code.raw_os_error());
    codes.any(|code| text.contains(&format!("(os error {code})")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_of_open_files_is_named_once_and_for_no_other_error() {
        for errno in CODES {
            let error = describe_connect_error(errno.into());
            let text = error.to_string();
            assert!(text.contains(OPEN_FILES_REMEDY), "{text}");
            assert!(is_out_of_descriptors(&error), "{text}");
            assert_eq!(with_open_files_remedy(text.clone()), text);
        }
        let refused = describe_connect_error(Errno::CONNREFUSED.into());
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::CONNREFUSED));
        let text = "cannot write d: No space left on device (os error 28)".to_owned();
        assert_eq!(with_open_files_remedy(text.clone()), text);
    }
}
