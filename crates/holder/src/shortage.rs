//! Why a holder has no id at this moment.

use std::time::Duration;

/// Why a holder has no id at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// The ids that may be stamped now are used up.
    Full {
        /// Time after which there are more.
        wait: Duration,
    },
    /// There is no worker, or what its grant allows is used up.
    NoGrant,
    /// The layout has no later tick.
    Ended,
}
