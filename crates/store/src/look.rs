//! View of a running store for the judges of a simulation. Only with `--cfg sim`.

use seqsvr_core::state::State;
use seqsvr_raft::sim::NodeView;

use crate::Store;

impl Store {
    /// Returns a view of the node of this store. Waits for nothing.
    pub fn look(&self) -> NodeView {
        self.context.node.look()
    }

    /// Reads the state that this store has applied.
    pub fn with_state<T>(&self, read: impl FnOnce(&State) -> T) -> T {
        self.context.node.with_state(read)
    }
}
