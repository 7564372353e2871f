//! Certificates as a user, or `seqsvr dev --secure`, makes them.

mod auth_file;
mod cert;
mod clients;
mod dev;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::dev::run_ok;

/// A CA that `seqsvr cert init` made, in a directory of its own.
struct TestAuthority {
    parent: TempDir,
}

impl TestAuthority {
    /// Makes a CA of the domain `prod`.
    fn create() -> TestAuthority {
        let parent = tempfile::tempdir().unwrap();
        let authority = TestAuthority { parent };
        run_ok(&["cert", "init", "--domain=prod", "--dir", &authority.dir()]);
        authority
    }

    fn path(&self) -> PathBuf {
        self.parent.path().join("pki")
    }

    fn dir(&self) -> String {
        self.path().display().to_string()
    }

    /// Makes a certificate. Returns its directory.
    fn issue(&self, role: &str, name: &str, flags: &[&str]) -> PathBuf {
        let dir = self.dir();
        let args = ["cert", role, "--dir", &dir, "--name", name];
        run_ok(&[&args, flags].concat());
        self.path().join(format!("{role}-{name}"))
    }
}

/// Returns a path as an argument.
fn text_of(path: &Path) -> &str {
    path.to_str().unwrap()
}
