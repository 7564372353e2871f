//! The certificates of a cluster of processes, made by the binary.

use std::path::{Path, PathBuf};

use crate::process::run_command;

/// A CA with its certificates, below one directory.
pub struct ProcessPki {
    dir: PathBuf,
}

impl ProcessPki {
    /// Makes a CA of the domain `test` in a new directory.
    pub async fn create(dir: &Path) -> ProcessPki {
        let pki = ProcessPki {
            dir: dir.to_owned(),
        };
        pki.run(&["init", "--domain", "test"]).await;
        pki
    }

    /// Makes a certificate of a role. Returns its directory. That of a server is for 127.0.0.1.
    pub async fn issue(&self, role: &str, name: &str) -> PathBuf {
        let mut args = vec![role, "--name", name];
        if matches!(role, "store" | "alloc") {
            args.extend(["--host", "127.0.0.1"]);
        }
        self.run(&args).await;
        self.issued(role, name)
    }

    /// Returns the directory of a certificate that was made before.
    pub fn issued(&self, role: &str, name: &str) -> PathBuf {
        self.dir.join(format!("{role}-{name}"))
    }

    async fn run(&self, args: &[&str]) {
        let dir = self.dir.display().to_string();
        let made = run_command(&[&["cert"], args, &["--dir", &dir]].concat()).await;
        assert!(made.status.success(), "cert {args:?}: {made:?}");
    }
}
