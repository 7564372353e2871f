//! What a supervisor does with a server: systemd units, signals that stop it, few descriptors,
//! and a disk without space.

mod open_files;
mod signals;
mod state_dir;
mod units;
