//! Machine of a run: its clocks and its process.

mod clock_set;
mod machine_clock;
mod sim_machine;
mod sim_process;

pub use clock_set::{ClockSet, Rates, START_UNIX_NS, TRUE_RATE};
pub use machine_clock::MachineClock;
pub use sim_machine::{HolderStart, MachineRole, SimMachine};
pub use sim_process::SimProcess;
