//! Simulated network of a run.

mod machine_transport;
mod network_state;
mod sim_network;
mod sim_stream;

pub use sim_network::{MachineId, NetworkConditions, SimNetwork};
