//! Under what name and address this AllocSvr registers. Plain data.

/// Identity of one AllocSvr process.
#[derive(Clone, Debug)]
pub(crate) struct AllocIdentity {
    /// Name, unique among live AllocSvrs.
    pub(crate) name: String,
    /// Address at which clients and other AllocSvrs reach it.
    pub(crate) address: String,
    /// Random number of this process.
    pub(crate) incarnation: u64,
}
