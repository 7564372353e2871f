//! What the operator can do about an error of the operating system.

use std::io;

use seqsvr_net::{OPEN_FILES_REMEDY, is_out_of_descriptors};

/// Returns what removes the cause of an error of the operating system, if it is known.
pub(crate) fn fix_of(reason: &io::Error) -> Option<&'static str> {
    use io::ErrorKind;
    Some(match reason.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "free space on its file system",
        ErrorKind::ReadOnlyFilesystem => {
            "its file system is mounted read-only, by hand or because its disk failed (see the system log): make it writable"
        }
        ErrorKind::PermissionDenied => {
            "let the user this process runs as read and write everything in the data directory"
        }
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            "something of another kind is there: check --data-dir, or move it away"
        }
        _ if is_out_of_descriptors(reason) => OPEN_FILES_REMEDY,
        _ => return None,
    })
}

/// Returns what the operator of a node can do about an error of the operating system.
pub(crate) fn node_remedy(reason: &io::Error) -> String {
    use io::ErrorKind;
    let Some(fix) = fix_of(reason) else {
        return String::from(
            "the system log may have the reason. Once the disk works, start this node again; if it stays broken and the other nodes work, remove this node from the cluster and add a new one under a new id",
        );
    };
    match reason.kind() {
        ErrorKind::PermissionDenied => format!("{fix}, then start this node again"),
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            fix.to_owned()
        }
        _ => format!("{fix}, then start this node again; nothing acknowledged is lost"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::io::Errno;

    use super::*;
    use crate::error::Error;

    fn error(errno: Errno) -> Error {
        Error::io("cannot write", Path::new("/d/log"))(errno.into())
    }

    #[test]
    fn too_many_open_files_is_no_broken_disk() {
        for errno in [Errno::MFILE, Errno::NFILE] {
            let by_text = io::Error::other(io::Error::from(errno).to_string());
            for error in [
                error(errno),
                Error::io("cannot open", Path::new("/d"))(by_text),
            ] {
                let text = error.to_string();
                assert!(text.contains("raise the limit of open files"), "{text}");
                assert!(text.contains("nothing acknowledged is lost"), "{text}");
                assert!(!text.contains("disk"), "{text}");
            }
        }
    }

    #[test]
    fn error_of_command_has_no_remedy_of_a_node() {
        let damaged = Error::damaged(Path::new("/d/s"), "bad checksum");
        let cases = [
            (
                error(Errno::NOSPC),
                "free space on its file system, then repeat it",
            ),
            (error(Errno::IO), "Once the disk works, repeat it"),
            (error(Errno::MFILE), "open files"),
            (damaged, "/d/s is damaged (bad checksum); use another"),
        ];
        for (error, words) in cases {
            let text = error.of_command("repeat it", "use another").to_string();
            assert!(text.contains(words), "{text}");
            for wrong in ["this node", "acknowledged", "other nodes"] {
                assert!(!text.contains(wrong), "{text}");
            }
        }
    }
}
