//! What a server brings for those who watch over it.

use prometheus_client::registry::Registry;

/// One thing that must hold for a server to be of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What holds, in two or three words.
    pub name: &'static str,
    /// Why it does not, and what to do.
    pub fault: Option<String>,
}

impl Check {
    /// It holds, or else this is to be said.
    pub fn new(name: &'static str, holds: bool, fault: impl FnOnce() -> String) -> Check {
        Check {
            name,
            fault: (!holds).then(fault),
        }
    }
}

/// A server as operators see it.
pub trait Watched: Send + Sync + 'static {
    /// Adds what it has to the registry of its process.
    fn register(&self, registry: &mut Registry);

    /// Why it serves no more, if it has failed for good: start it again.
    fn failed_with(&self) -> Option<String>;

    /// What must hold now for it to serve.
    fn checks(&self) -> Vec<Check>;
}
