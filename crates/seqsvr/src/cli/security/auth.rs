//! The command line of `seqsvr auth`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use seqsvr_access::{ClusterRight, GrantPattern, NamespaceRight};
use seqsvr_core::namespace::validate_name;

pub(in crate::cli) const AUTH_HELP: &str = "\
FILE has a table of each principal: the SHA-256 of its tokens, and its rights. It may be edited by
hand as well. An AllocSvr reads it at its start (--auth-file): restart it after a change.

Example:
  seqsvr auth add auth.toml --principal ops --cluster status,admin --out ops.token
  seqsvr auth add auth.toml --principal billing --next 'orders,@ids/*' --out billing.token
  seqsvr auth list auth.toml
  seqsvr auth can auth.toml --token-file billing.token next orders
  seqsvr auth add auth.toml --principal billing --out new.token
  seqsvr auth remove auth.toml --principal billing --token 3f9a0c12";

#[derive(Subcommand)]
pub(crate) enum AuthCommand {
    /// Add a principal, or one more token of a principal.
    ///
    /// A new principal needs rights. Without rights, the command adds a token to a principal that
    /// exists. All tokens of a principal are equal: to replace one, add another, give it to the
    /// holder, and remove the first.
    Add(AddAuthArgs),
    /// Remove a principal, or one token of it.
    ///
    /// The last principal stays, and so does the last one with the right admin.
    Remove(RemoveAuthArgs),
    /// List the principals, their rights and their tokens.
    ///
    /// A token is shown as the first digits of its SHA-256.
    List(ListAuthArgs),
    /// Check a file: who may change and read it, and all that is in it.
    Check(CheckAuthArgs),
    /// Say whether a principal has a right. Exit code 0: it has. 1: it has not.
    Can(CanAuthArgs),
}

#[derive(Args)]
pub(crate) struct AddAuthArgs {
    /// File of principals; the first principal creates it.
    pub(crate) file: PathBuf,
    /// Name of the principal: 1 to 64 of `a-z A-Z 0-9 _ . -`.
    ///
    /// A certificate of the role client with this name speaks for it, too.
    #[arg(long, value_name = "NAME", value_parser = parse_principal)]
    pub(crate) principal: String,
    /// Namespaces and families whose numbers and ids it may take.
    ///
    /// A pattern is a name, or the beginning of names and one `*`. @ids/NAME is a family of ids,
    /// which only such a pattern covers.
    #[arg(
        long,
        value_name = "PATTERN[,PATTERN]",
        value_delimiter = ',',
        value_parser = |text: &str| GrantPattern::parse(NamespaceRight::Next, text)
    )]
    pub(crate) next: Vec<GrantPattern>,
    /// Namespaces whose last numbers it may read.
    #[arg(
        long,
        value_name = "PATTERN[,PATTERN]",
        value_delimiter = ',',
        value_parser = |text: &str| GrantPattern::parse(NamespaceRight::Current, text)
    )]
    pub(crate) current: Vec<GrantPattern>,
    /// Namespaces whose sequences it may raise.
    #[arg(
        long,
        value_name = "PATTERN[,PATTERN]",
        value_delimiter = ',',
        value_parser = |text: &str| GrantPattern::parse(NamespaceRight::Raise, text)
    )]
    pub(crate) raise: Vec<GrantPattern>,
    /// Rights on the cluster: status, metrics, admin.
    ///
    /// No right implies another one.
    #[arg(
        long,
        value_name = "RIGHT[,RIGHT]",
        value_delimiter = ',',
        value_parser = parse_cluster_right
    )]
    pub(crate) cluster: Vec<ClusterRight>,
    /// New file for the token, which only this user may read.
    ///
    /// Without it a new principal has no token: only a certificate speaks for it.
    #[arg(long, value_name = "TOKENFILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct RemoveAuthArgs {
    /// File of principals.
    pub(crate) file: PathBuf,
    /// Name of the principal.
    #[arg(long, value_name = "NAME", value_parser = parse_principal)]
    pub(crate) principal: String,
    /// Remove only the token whose SHA-256 begins so, as `auth list` shows it.
    #[arg(long, value_name = "SHA256", value_parser = parse_hash_digits)]
    pub(crate) token: Option<String>,
}

#[derive(Args)]
pub(crate) struct ListAuthArgs {
    /// File of principals.
    pub(crate) file: PathBuf,
    /// Print one JSON object per principal.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct CheckAuthArgs {
    /// File of principals.
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct CanAuthArgs {
    /// File of principals.
    pub(crate) file: PathBuf,
    /// Name of the principal.
    #[arg(long, value_name = "NAME", value_parser = parse_principal, conflicts_with = "token_file")]
    pub(crate) principal: Option<String>,
    /// File with a token, which says who the principal is.
    #[arg(long, value_name = "FILE", required_unless_present = "principal")]
    pub(crate) token_file: Option<PathBuf>,
    /// One of next, current, raise, status, metrics, admin.
    #[arg(value_parser = AnyRight::parse)]
    pub(crate) right: AnyRight,
    /// For next, current and raise: a namespace, or a family of ids as @ids/NAME.
    pub(crate) name: Option<String>,
}

/// A right of either kind.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnyRight {
    OnNamespace(NamespaceRight),
    OnCluster(ClusterRight),
}

impl AnyRight {
    fn parse(word: &str) -> Result<AnyRight, String> {
        let mut on_namespaces = NamespaceRight::ALL.into_iter();
        if let Some(right) = on_namespaces.find(|right| right.name() == word) {
            return Ok(AnyRight::OnNamespace(right));
        }
        let on_cluster = ClusterRight::parse(word).map(AnyRight::OnCluster);
        on_cluster.ok_or_else(|| "use next, current, raise, status, metrics or admin".to_owned())
    }
}

fn parse_cluster_right(word: &str) -> Result<ClusterRight, String> {
    ClusterRight::parse(word).ok_or_else(|| "use status, metrics or admin".to_owned())
}

fn parse_principal(name: &str) -> Result<String, String> {
    validate_name("principal", name).map(|()| name.to_owned())
}

fn parse_hash_digits(digits: &str) -> Result<String, String> {
    let is_digit = |c: u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
    match (8..=64).contains(&digits.len()) && digits.bytes().all(is_digit) {
        true => Ok(digits.to_owned()),
        false => Err("use the digits that `seqsvr auth list` shows: 8 to 64 of 0-9 a-f".to_owned()),
    }
}
