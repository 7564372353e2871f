//! The command line of `next`, `current`, `route` and `raise-to`.

use clap::Args;

use super::Server;

/// Which namespace a key is of.
#[derive(Args)]
pub(crate) struct InNamespace {
    /// Namespace; without it a decimal goes to `default`, anything else to `keys`.
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
pub(crate) struct Next {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// How many numbers, 1 to 100,000; printed one a line.
    #[arg(long, short = 'c', default_value_t = 1)]
    pub(crate) count: u32,
    /// Last number seen: the answer is greater, or an error.
    #[arg(long)]
    pub(crate) floor: Option<u64>,
    /// Have the store confirm the answer: right whatever clocks do, at the price of a round trip.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Current {
    /// Uids (decimals) or keys.
    #[arg(value_name = "UID|KEY", required = true)]
    pub(crate) keys: Vec<String>,
    /// Have the store confirm the answers.
    #[arg(long)]
    pub(crate) strict: bool,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct Route {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// As JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}

#[derive(Args)]
pub(crate) struct RaiseTo {
    /// Uid (a decimal) or key.
    #[arg(value_name = "UID|KEY")]
    pub(crate) key: String,
    /// Every later number will be greater than this one.
    #[arg(value_name = "N", value_parser = clap::value_parser!(u64).range(1..=i64::MAX as u64))]
    pub(crate) value: u64,
    /// Skip the namespace's bound on jumps.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) server: Server,
}
