//! Simulated network of a run.

mod machine_transport;
mod network_conditions;
mod network_state;
mod sim_network;
mod sim_stream;

pub use machine_transport::{certified_transport, machine_transport};
pub use network_conditions::{MachineId, NetworkConditions};
pub use sim_network::SimNetwork;
