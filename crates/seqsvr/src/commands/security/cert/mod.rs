//! `cert init|store|alloc|admin|client|show`: makes and shows certificates. No command calls a
//! server.

mod authority;
mod new_dir;
mod pem;
mod show;
mod validity;

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::bail;
use authority::{Authority, CA_FILE, CA_KEY_FILE, IssuedPair, create_authority};
use new_dir::write_new_dir;
use seqsvr_net::tls::{PeerIdentity, Role};
use validity::format_end;

use crate::cli::{CertCommand, InitCertArgs, UserCertArgs};
use crate::output::exit_code::BadInput;
use crate::output::stdout;

/// Files of the holder of a certificate, beside [`CA_FILE`].
const CERT_FILE: &str = "cert.pem";
const KEY_FILE: &str = "key.pem";
/// Maximum hosts of a certificate, which each handshake carries. More are rejected.
const HOSTS_MAX: usize = 64;

/// Holder of a new certificate.
pub(in crate::commands) struct NewHolder {
    pub(in crate::commands) role: Role,
    pub(in crate::commands) name: String,
    /// Where others reach it, if it is a server.
    pub(in crate::commands) hosts: Vec<String>,
}

pub(in crate::commands) fn run(command: CertCommand) -> anyhow::Result<()> {
    let now = calendar_time();
    match command {
        CertCommand::Init(args) => create_ca(&args, now),
        CertCommand::Store(args) => create_pair(Role::Store, &args.holder, args.hosts, now),
        CertCommand::Alloc(args) => create_pair(Role::Alloc, &args.holder, args.hosts, now),
        CertCommand::Admin(args) => create_pair(Role::Admin, &args, Vec::new(), now),
        CertCommand::Client(args) => create_pair(Role::Client, &args, Vec::new(), now),
        CertCommand::Show(args) => show::run(&args, now),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "certificates name times of the calendar"
)]
fn calendar_time() -> SystemTime {
    SystemTime::now()
}

/// Returns the directory of a holder in that of the CA.
pub(in crate::commands) fn holder_dir(dir: &Path, role: Role, name: &str) -> PathBuf {
    dir.join(format!("{role}-{name}"))
}

/// Makes what a directory does not have yet: the certificates of these holders, and the CA that
/// signs them.
///
/// # Errors
/// The directory has no usable CA, or the system fails to write.
pub(in crate::commands) fn create_missing_pairs(
    dir: &Path,
    domain: &str,
    holders: &[NewHolder],
    days: u32,
) -> anyhow::Result<()> {
    let has_none = |holder: &&NewHolder| !holder_dir(dir, holder.role, &holder.name).exists();
    let missing: Vec<&NewHolder> = holders.iter().filter(has_none).collect();
    // The key of the CA may be kept elsewhere.
    if missing.is_empty() {
        return Ok(());
    }
    let now = calendar_time();
    let is_new = missing.len() == holders.len();
    if is_new && !dir.join(CA_FILE).exists() {
        write_authority(dir, domain, days, now)?;
    }
    let authority = Authority::load(dir, now)?;
    for holder in missing {
        let identity = PeerIdentity::new(authority.domain(), holder.role, &holder.name)?;
        write_pair(dir, &authority, &identity, &holder.hosts, days, now)?;
    }
    Ok(())
}

fn write_authority(
    dir: &Path,
    domain: &str,
    days: u32,
    now: SystemTime,
) -> anyhow::Result<IssuedPair> {
    let pair = create_authority(domain, days, now)?;
    let files = [(CA_FILE, &*pair.pem), (CA_KEY_FILE, &*pair.key_pem)];
    write_new_dir(dir, &files)?;
    Ok(pair)
}

fn write_pair(
    dir: &Path,
    authority: &Authority,
    identity: &PeerIdentity,
    hosts: &[String],
    days: u32,
    now: SystemTime,
) -> anyhow::Result<IssuedPair> {
    let pair = authority.issue(identity, hosts, days, now)?;
    let files = [
        (CA_FILE, &*authority.trusted),
        (CERT_FILE, &*pair.pem),
        (KEY_FILE, &*pair.key_pem),
    ];
    write_new_dir(&holder_dir(dir, identity.role(), identity.name()), &files)?;
    Ok(pair)
}

fn create_ca(args: &InitCertArgs, now: SystemTime) -> anyhow::Result<()> {
    let pair = write_authority(&args.dir, &args.domain, args.days, now)?;
    let dir = args.dir.display();
    stdout::print_line(format_args!("files     {dir}: {CA_FILE}, {CA_KEY_FILE}"))?;
    stdout::print_line(format_args!("domain    {}", args.domain))?;
    stdout::print_line(format_args!(
        "valid     {}",
        format_end(&pair.certificate, now)
    ))?;
    stdout::print_line(format_args!(
        "keep      {CA_KEY_FILE} offline: its holder can speak for every server and operator of {}, and only `seqsvr cert` needs it",
        args.domain
    ))?;
    Ok(())
}

fn create_pair(
    role: Role,
    args: &UserCertArgs,
    mut hosts: Vec<String>,
    now: SystemTime,
) -> anyhow::Result<()> {
    hosts.sort();
    hosts.dedup();
    if hosts.len() > HOSTS_MAX {
        bail!(BadInput(format!(
            "{} times --host: a certificate has at most {HOSTS_MAX} hosts; make one for each server",
            hosts.len()
        )));
    }
    let authority = Authority::load(&args.dir, now)?;
    let identity = PeerIdentity::new(authority.domain(), role, &args.name)
        .map_err(|error| BadInput(format!("--name: {error}")))?;
    let pair = write_pair(&args.dir, &authority, &identity, &hosts, args.days, now)?;
    let dir = holder_dir(&args.dir, role, &args.name);
    let dir = dir.display();
    stdout::print_line(format_args!(
        "files     {dir}: {CA_FILE}, {CERT_FILE}, {KEY_FILE}"
    ))?;
    stdout::print_line(format_args!("identity  {identity}"))?;
    if !hosts.is_empty() {
        stdout::print_line(format_args!("hosts     {}", hosts.join(", ")))?;
    }
    stdout::print_line(format_args!(
        "valid     {}",
        format_end(&pair.certificate, now)
    ))?;
    Ok(())
}
