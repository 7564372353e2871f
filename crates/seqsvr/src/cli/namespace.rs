//! The command line of `seqsvr namespace`.

use clap::{Args, Subcommand};

use super::common::{ClientArgs, ListArgs};

#[derive(Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Create a namespace.
    ///
    /// A repeat with the same settings changes nothing.
    Create(CreateNamespaceArgs),
    /// Change step, limits and strict mode of a namespace.
    Alter(AlterNamespaceArgs),
    /// List all namespaces.
    List(ListArgs),
}

/// Settings that `namespace create` and `namespace alter` share.
#[derive(Args)]
pub(crate) struct NamespaceLimitArgs {
    /// Maximum numbers that one raise adds, --step to 1,073,741,824.
    ///
    /// If it equals --step, the step never changes. Default of a new namespace: 134,217,728, or
    /// the step if that is greater.
    #[arg(long)]
    pub(crate) step_max: Option<u32>,
    /// Maximum sum of the jumps of `raise-to` in one section, without --force.
    ///
    /// A `raise-to` above the limit is rejected. Default of a new namespace: 1,000,000,000.
    #[arg(long)]
    pub(crate) raise_to_max: Option<u64>,
}

#[derive(Args)]
pub(crate) struct CreateNamespaceArgs {
    /// Name of the new namespace: 1 to 64 of `a-z A-Z 0-9 _ . -`.
    pub(crate) name: String,
    /// Create sequences for keys instead of uids.
    #[arg(long)]
    pub(crate) keyed: bool,
    /// Uids of a dense section, 1 to 16,777,216.
    #[arg(long, default_value_t = 100_000, conflicts_with = "keyed")]
    pub(crate) section_size: u32,
    /// Upper bound of the uids: each is below it.
    #[arg(long, default_value_t = 1 << 32, conflicts_with = "keyed")]
    pub(crate) max_uid: u64,
    /// Sections of a keyed namespace, 1 to 1,048,576.
    #[arg(long, default_value_t = 4_096, requires = "keyed")]
    pub(crate) sections: u32,
    /// First number of every sequence, 1 or more.
    #[arg(long, default_value_t = 1)]
    pub(crate) start: u64,
    /// Distance between two numbers, 1 to 65,536.
    #[arg(long, default_value_t = 1)]
    pub(crate) stride: u32,
    /// Issue only numbers n with n mod stride = offset; it must be below --stride.
    #[arg(long, default_value_t = 0)]
    pub(crate) offset: u32,
    /// Numbers that one raise of a cold section adds, 1 to --step-max.
    #[arg(long, default_value_t = seqsvr_core::namespace::STEP_DEFAULT)]
    pub(crate) step: u32,
    #[command(flatten)]
    pub(crate) limits: NamespaceLimitArgs,
    /// Confirm every answer of this namespace with a store before it is sent.
    #[arg(long)]
    pub(crate) strict: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Args)]
pub(crate) struct AlterNamespaceArgs {
    /// Name of the namespace.
    pub(crate) name: String,
    /// Numbers that one raise of a cold section adds, 1 to --step-max.
    #[arg(long)]
    pub(crate) step: Option<u32>,
    #[command(flatten)]
    pub(crate) limits: NamespaceLimitArgs,
    /// Confirm every answer with a store (`true`), or do not (`false`).
    #[arg(long)]
    pub(crate) strict: Option<bool>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
