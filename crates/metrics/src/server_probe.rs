//! Interface of a server for the people and tools that monitor it.

use prometheus_client::registry::Registry;

/// One condition that must hold for a server to be useful.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// Name of the condition, in two or three words.
    pub name: &'static str,
    /// Reason why it does not hold, and what to do.
    pub failure: Option<String>,
}

impl HealthCheck {
    /// Makes a check; `fault` gives the text if it does not hold.
    pub fn new(name: &'static str, holds: bool, fault: impl FnOnce() -> String) -> HealthCheck {
        HealthCheck {
            name,
            failure: (!holds).then(fault),
        }
    }
}

/// A server as operators see it.
pub trait ServerProbe: Send + Sync + 'static {
    /// Adds its metrics to the registry of its process.
    fn register_metrics(&self, registry: &mut Registry);

    /// Returns why it serves no more, if it has failed permanently: start it again.
    fn permanent_failure(&self) -> Option<String>;

    /// Returns the conditions that must hold now for it to serve.
    fn health_checks(&self) -> Vec<HealthCheck>;
}
