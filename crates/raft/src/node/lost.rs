//! What a node does about a log that lost what it acknowledged; see [`crate::lost`].

use super::Node;
use crate::error::Error;
use crate::lost;
use crate::types::{LogId, Vote};

impl Node {
    /// Why this node takes no further part, if it does not.
    pub(crate) fn lost(&self) -> Option<String> {
        self.inner.gate.ended().borrow().clone()
    }

    /// Looks whether the log still has what the leader of `vote` says it acknowledged, before openraft
    /// hears of the append. If not, this node stops: openraft, so that it does not ask for votes
    /// either, and with [`Node::failed`] the process.
    ///
    /// # Errors
    /// Why it stops.
    pub(crate) fn judge(&self, vote: &Vote, acknowledged: u64) -> Result<(), String> {
        // Without a log it has shut down.
        let Some(log) = self.inner.log.upgrade() else {
            return Ok(());
        };
        let Some(what) = lost::judge(&log.held(), vote, acknowledged) else {
            return Ok(());
        };
        let log = log.path().to_owned();
        let why = Error::LogLost { log, what }.to_string();
        self.inner.gate.end(why.clone());
        Err(why)
    }

    /// Notes that a snapshot up to this entry goes to openraft.
    pub(crate) fn cover(&self, last: Option<LogId>) {
        if let Some(log) = self.inner.log.upgrade() {
            log.cover(last);
        }
    }
}
