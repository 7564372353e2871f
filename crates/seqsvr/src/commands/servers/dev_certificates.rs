//! The certificates of `seqsvr dev --secure`, in the directory `tls` of the data directory.
//!
//! It is a directory of `seqsvr cert`. A start makes what is missing and keeps what exists, so
//! callers with copies of their certificates stay callers.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;

use anyhow::Context;
use seqsvr_net::Transport;
use seqsvr_net::tls::Role;

use crate::cli;
use crate::commands::security::cert::{NewHolder, create_missing_pairs, holder_dir};
use crate::output::exit_code::BadInput;
use crate::server::private_dir;
use crate::server::tls::ServerTls;

const DOMAIN: &str = "dev";
/// Name of the operator and of the client.
const CALLER: &str = "dev";
/// Days for which all are valid. The key of the CA is beside the others, so a shorter time would
/// protect nothing.
const VALID_DAYS: u32 = 3_650;

/// Certificates of all servers and callers of a `dev`; without `--secure`, none.
pub(super) struct DevCertificates {
    /// TLS of each StoreSvr.
    pub(super) stores: Vec<ServerTls>,
    /// TLS of each AllocSvr.
    pub(super) allocs: Vec<ServerTls>,
    /// Network of an operator.
    pub(super) operator: Arc<dyn Transport>,
    /// Directory of all.
    dir: Option<PathBuf>,
}

impl DevCertificates {
    /// Reads the certificates, and makes those that are missing.
    ///
    /// # Errors
    /// One cannot be used, or the system fails to write.
    pub(super) fn prepare(args: &cli::DevArgs) -> anyhow::Result<DevCertificates> {
        if !args.secure {
            return Ok(DevCertificates {
                stores: (0..args.stores).map(|_| ServerTls::none()).collect(),
                allocs: (0..args.allocs).map(|_| ServerTls::none()).collect(),
                operator: cli::read_transport(None)?,
                dir: None,
            });
        }
        fs::create_dir_all(&args.data_dir).with_context(|| {
            let dir = args.data_dir.display();
            format!("cannot create --data-dir {dir}; name one that this user may write")
        })?;
        // Commands of other directories can use it as well.
        let dir = absolute(args.data_dir.join("tls")).context("cannot find this directory")?;
        private_dir::close_dir("--data-dir", &dir)?;
        let certificates = DevCertificates::open(&dir, args.stores, args.allocs);
        certificates.map_err(|error| with_remedy(error, &dir))
    }

    fn open(dir: &Path, stores: u64, allocs: u64) -> anyhow::Result<DevCertificates> {
        let hosts = [Ipv4Addr::LOCALHOST.to_string(), "localhost".to_owned()];
        let server = |role, name: String| NewHolder {
            role,
            name,
            hosts: hosts.to_vec(),
        };
        let caller = |role| NewHolder {
            role,
            name: CALLER.to_owned(),
            hosts: Vec::new(),
        };
        let stores = (1..=stores).map(|id| server(Role::Store, id.to_string()));
        let allocs = (1..=allocs).map(|i| server(Role::Alloc, format!("a{i}")));
        let callers = [Role::Admin, Role::Client].map(caller);
        let holders: Vec<NewHolder> = stores.chain(allocs).chain(callers).collect();
        create_missing_pairs(dir, DOMAIN, &holders, VALID_DAYS)?;
        let read_all = |role| -> Result<Vec<ServerTls>, BadInput> {
            let of_role = holders.iter().filter(|holder| holder.role == role);
            of_role
                .map(|NewHolder { name, hosts, .. }| {
                    let path = holder_dir(dir, role, name);
                    ServerTls::read(Some(&path), false, role, Some(name), &hosts[0])
                })
                .collect()
        };
        Ok(DevCertificates {
            stores: read_all(Role::Store)?,
            allocs: read_all(Role::Alloc)?,
            operator: cli::read_transport(Some(&holder_dir(dir, Role::Admin, CALLER)))?,
            dir: Some(dir.to_owned()),
        })
    }

    /// Returns what a command needs to call as this role, with a space before it.
    pub(super) fn flag(&self, role: Role) -> String {
        self.dir.as_deref().map_or_else(String::new, |dir| {
            let dir = holder_dir(dir, role, CALLER);
            format!(" --tls-dir {}", shell_word(&dir))
        })
    }

    /// Returns the protection of the endpoints, for the banner; None: there is none.
    pub(super) fn describe(&self) -> Option<String> {
        let dir = self.dir.as_deref()?.display();
        let days = self.servers().filter_map(ServerTls::days_left).min()?;
        Some(format!(
            "TLS 1.3 for gRPC, certificates of {dir} for {days} days more; other endpoints: no TLS, loopback only"
        ))
    }

    /// Logs a warning now and every day for each server whose certificate ends soon.
    pub(super) fn start_expiry_warnings(&self) {
        self.servers().for_each(ServerTls::start_expiry_warnings);
    }

    fn servers(&self) -> impl Iterator<Item = &ServerTls> {
        self.stores.iter().chain(&self.allocs)
    }
}

/// Adds what helps in each case to an error of a certificate.
fn with_remedy(error: anyhow::Error, dir: &Path) -> anyhow::Error {
    if !error.is::<BadInput>() {
        return error;
    }
    let text = error.to_string();
    let cause = text.trim_start_matches("--tls-dir");
    let cause = cause.trim_start_matches([':', ' ']);
    BadInput(format!(
        "--secure: {cause}; or move {} away: the next start makes all certificates again",
        dir.display()
    ))
    .into()
}

/// Returns a path as a shell reads it.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    match text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}
