//! The command line of `seqsvr cert`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use seqsvr_net::tls::validate_domain;

use crate::cli::value_parsers::parse_certified_host;

pub(in crate::cli) const CERT_HELP: &str = "\
A directory has the CA of one domain; the commands keep no other record. They call no server.

Example:
  seqsvr cert init --dir pki --domain prod
  seqsvr cert store --dir pki --name s1 --host store1.internal
  seqsvr cert alloc --dir pki --name a1 --host a1.internal --host 10.0.0.7
  seqsvr cert admin --dir pki --name alice
  seqsvr cert client --dir pki --name billing
  seqsvr cert show pki";

#[derive(Subcommand)]
pub(crate) enum CertCommand {
    /// Create the CA of a domain: its key signs all certificates.
    ///
    /// It writes ca.pem and ca-key.pem into a new directory that only this user may enter. The
    /// holder of ca-key.pem can speak for every server, operator and client of the domain.
    Init(InitCertArgs),
    /// Make key and certificate of a StoreSvr.
    ///
    /// It writes ca.pem, cert.pem and key.pem into the new directory DIR/store-NAME.
    Store(ServerCertArgs),
    /// Make key and certificate of an AllocSvr.
    ///
    /// It writes ca.pem, cert.pem and key.pem into the new directory DIR/alloc-NAME.
    Alloc(ServerCertArgs),
    /// Make key and certificate of an operator, who may change the cluster.
    ///
    /// It writes ca.pem, cert.pem and key.pem into the new directory DIR/admin-NAME.
    Admin(UserCertArgs),
    /// Make key and certificate of a program that takes numbers.
    ///
    /// It writes ca.pem, cert.pem and key.pem into the new directory DIR/client-NAME.
    Client(UserCertArgs),
    /// Print whom certificates speak for, and how long they are valid.
    ///
    /// It warns of certificates that end within 30 days.
    Show(ShowCertArgs),
}

#[derive(Args)]
pub(crate) struct InitCertArgs {
    /// Directory of the CA, which must be new or empty.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Name of all that trust each other: 1 to 63 of `a-z 0-9 . -`.
    ///
    /// Each part between dots begins and ends with a letter or digit. Servers reject the
    /// certificates of other domains.
    #[arg(long, value_name = "NAME", value_parser = parse_domain)]
    pub(crate) domain: String,
    /// Days for which the CA is valid, 1 to 36,500.
    ///
    /// No certificate of the CA is valid after its end.
    #[arg(
        long,
        default_value_t = 3_650,
        value_parser = clap::value_parser!(u32).range(1..=36_500)
    )]
    pub(crate) days: u32,
}

/// What a certificate without hosts needs.
#[derive(Args)]
pub(crate) struct UserCertArgs {
    /// Directory of the CA, as `cert init` made it.
    #[arg(long)]
    pub(crate) dir: PathBuf,
    /// Name in the certificate: 1 to 64 of `a-z A-Z 0-9 _ . -`.
    #[arg(long)]
    pub(crate) name: String,
    /// Days for which the certificate is valid, 1 to 36,500.
    ///
    /// It ends no later than its CA.
    #[arg(
        long,
        default_value_t = 365,
        value_parser = clap::value_parser!(u32).range(1..=36_500)
    )]
    pub(crate) days: u32,
}

#[derive(Args)]
pub(crate) struct ServerCertArgs {
    #[command(flatten)]
    pub(crate) holder: UserCertArgs,
    /// DNS name or IP address at which others reach the server; 1 to 64 times.
    ///
    /// It has every host that the server's --advertise or --listen and the --stores or --server of
    /// others name. Callers reject a server at any other host.
    #[arg(long = "host", value_name = "HOST", required = true, value_parser = parse_certified_host)]
    pub(crate) hosts: Vec<String>,
}

#[derive(Args)]
pub(crate) struct ShowCertArgs {
    /// Files with certificates in PEM, or directories.
    ///
    /// Of a directory it shows ca.pem, cert.pem, and cert.pem of each directory in it.
    #[arg(value_name = "FILE|DIR", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Print one JSON object per certificate.
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_domain(text: &str) -> Result<String, String> {
    validate_domain(text).map(|()| text.to_owned())
}
