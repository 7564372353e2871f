//! Commands about workers and time, and the messages between holders and the stores.

/// A command of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GrantCommand {
    /// A leader's reading of the time, made after so many set-backs as it has applied.
    Time { now: u8, resets: u8 },
    /// An operator sets the store time.
    SetTime { now: u8 },
    /// An operator raises the first tick that may be granted.
    RaiseFloor { floor: u8 },
    /// An operator takes a worker from its holder.
    Revoke { worker: usize, epoch: u8 },
    /// A holder requests a worker: that one, or any.
    Acquire {
        holder: u8,
        nonce: u8,
        claimed: Option<usize>,
    },
    /// A holder extends its grant.
    Renew { worker: usize, epoch: u8 },
    /// A holder hands a worker back. `used` is the first tick of which it gave nothing.
    Release { worker: usize, epoch: u8, used: u8 },
}

/// A request of a holder on its way to the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HolderRequest {
    /// The process that sent it.
    pub(crate) holder: usize,
    /// The command that it requests.
    pub(crate) command: GrantCommand,
}

/// Reply of the stores to a command that was not rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum GrantReply {
    /// Ticks [from, until) of a lane of a worker belong to that worker epoch.
    Granted {
        worker: usize,
        epoch: u8,
        lane: usize,
        from: u8,
        until: u8,
    },
    /// The grant of that worker epoch ends at `until`.
    Renewed { worker: usize, epoch: u8, until: u8 },
}

/// A reply on its way to a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct HolderReply {
    /// The process that receives it.
    pub(crate) holder: usize,
    /// Its content.
    pub(crate) reply: GrantReply,
}
