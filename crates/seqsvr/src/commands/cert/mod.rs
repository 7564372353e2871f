//! `cert init|store|alloc|admin|client|show`: makes and shows certificates. No command calls a
//! server.

mod authority;
mod new_dir;
mod pem;
mod show;
mod validity;

use std::time::SystemTime;

use anyhow::bail;
use authority::{Authority, CA_FILE, CA_KEY_FILE, create_authority};
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

pub(super) fn run(command: CertCommand) -> anyhow::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "certificates name times of the calendar"
    )]
    let now = SystemTime::now();
    match command {
        CertCommand::Init(args) => create_ca(&args, now),
        CertCommand::Store(args) => create_pair(Role::Store, &args.holder, args.hosts, now),
        CertCommand::Alloc(args) => create_pair(Role::Alloc, &args.holder, args.hosts, now),
        CertCommand::Admin(args) => create_pair(Role::Admin, &args, Vec::new(), now),
        CertCommand::Client(args) => create_pair(Role::Client, &args, Vec::new(), now),
        CertCommand::Show(args) => show::run(&args, now),
    }
}

fn create_ca(args: &InitCertArgs, now: SystemTime) -> anyhow::Result<()> {
    let pair = create_authority(&args.domain, args.days, now)?;
    let files = [(CA_FILE, &*pair.pem), (CA_KEY_FILE, &*pair.key_pem)];
    write_new_dir(&args.dir, &files)?;
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
    let pair = authority.issue(&identity, &hosts, args.days, now)?;
    let dir = args.dir.join(format!("{role}-{}", args.name));
    let files = [
        (CA_FILE, &*authority.trusted),
        (CERT_FILE, &*pair.pem),
        (KEY_FILE, &*pair.key_pem),
    ];
    write_new_dir(&dir, &files)?;
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
