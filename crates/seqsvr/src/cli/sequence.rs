//! The command line of `next`, `current`, `route` and `raise-to`.

use clap::Args;

use super::common::ClientArgs;

/// Namespace of a key.
#[derive(Args)]
pub(crate) struct NamespaceArgs {
    /// Namespace. Default: `default` for a decimal, `keys` for anything else.
    #[arg(
        long,
        short = 'n',
        env = "SEQSVR_NAMESPACE",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) namespace: String,
}

#[derive(Args)]
pub(crate) struct NextArgs {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// Numbers to take, 1 to 100,000; printed one per line.
    #[arg(long, short = 'c', default_value_t = 1)]
    pub(crate) count: u32,
    /// Last number received. The command prints a greater one, or fails.
    #[arg(long)]
    pub(crate) floor: Option<u64>,
    /// Confirm the answer with a store, which costs a round trip.
    ///
    /// The answer is then correct even if the clock of a server is wrong.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct CurrentArgs {
    /// Uids (decimals) or keys.
    #[arg(value_name = "UID|KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// Confirm the answers with a store.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print one JSON object per line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct RouteArgs {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct RaiseToArgs {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// Lower bound of all later numbers: each is greater.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub(crate) value: u64,
    /// Ignore the limit of jumps of the namespace (--raise-to-max).
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
