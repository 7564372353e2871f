//! The command line of `seqsvr namespace`.

use clap::{Args, Subcommand};

use super::common::{ClientArgs, ListArgs};

#[derive(Subcommand)]
pub(crate) enum NamespaceCommand {
    /// Create a namespace.
    ///
    /// A repeat with the same settings changes nothing.
    Create(CreateNamespaceArgs),
    /// Change step and limits of a namespace.
    Alter(AlterNamespaceArgs),
    /// List all namespaces.
    List(ListArgs),
}

/// Settings that `namespace alter` can change, too.
#[derive(Args)]
pub(crate) struct NamespaceLimitArgs {
    /// Maximum numbers that one raise adds. The value of --step pins the step.
    #[arg(long)]
    pub(crate) step_max: Option<u32>,
    /// Maximum sum of the jumps of `raise-to` in one section, without --force.
    #[arg(long)]
    pub(crate) raise_to_max: Option<u64>,
}

#[derive(Args)]
pub(crate) struct CreateNamespaceArgs {
    /// Name of the new namespace.
    pub(crate) name: String,
    /// Create sequences for keys instead of uids.
    #[arg(long)]
    pub(crate) keyed: bool,
    /// Uids of a dense section.
    #[arg(long, default_value_t = 100_000, conflicts_with = "keyed")]
    pub(crate) section_size: u32,
    /// Upper bound of the uids: each is below it.
    #[arg(long, default_value_t = 1 << 32, conflicts_with = "keyed")]
    pub(crate) max_uid: u64,
    /// Sections of a keyed namespace.
    #[arg(long, default_value_t = 4_096, requires = "keyed")]
    pub(crate) sections: u32,
    /// First number of every sequence.
    #[arg(long, default_value_t = 1)]
    pub(crate) start: u64,
    /// Distance between two numbers.
    #[arg(long, default_value_t = 1)]
    pub(crate) stride: u32,
    /// Issue only numbers n with n mod stride = offset.
    #[arg(long, default_value_t = 0)]
    pub(crate) offset: u32,
    /// Numbers that one raise of a cold section adds.
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
    /// Numbers that one raise of a cold section adds.
    #[arg(long)]
    pub(crate) step: Option<u32>,
    #[command(flatten)]
    pub(crate) limits: NamespaceLimitArgs,
    /// Confirm every answer of this namespace with a store, or stop that.
    #[arg(long)]
    pub(crate) strict: Option<bool>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}
